# Prints the shape of Python sources for reference_comparison: one JSON object
# with the names that occur and, for each file, their numbers in order.
import ast, io, json, sys, tokenize

method, paths = sys.argv[1], sys.argv[2:]
names, numbers = {}, []
for path in paths:
    try:
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if method == "ast":
            kinds = [type(node).__name__ for node in ast.walk(ast.parse(source))]
        else:
            tokens = tokenize.generate_tokens(io.StringIO(source).readline)
            kinds = [tokenize.tok_name[token.type] for token in tokens]
    except Exception as error:
        print(json.dumps({"failed": len(numbers), "why": f"{type(error).__name__}: {error}"[:300]}))
        sys.exit(0)
    numbers.append([names.setdefault(kind, len(names)) for kind in kinds])
print(json.dumps({"names": list(names), "files": numbers}, separators=(",", ":")))
