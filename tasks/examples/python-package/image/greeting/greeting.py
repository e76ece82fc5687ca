TEXT = "hello from the index"
