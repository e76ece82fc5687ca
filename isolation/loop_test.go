package isolation_test

// loopVariable makes the test binary a podgrade that opens cells until it is
// killed.
const loopVariable = "PODGRADE_TEST_LOOP"

func loop() int { return 0 }
