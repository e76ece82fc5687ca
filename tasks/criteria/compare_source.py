# Prints the shape of Python sources for reference_comparison: one JSON object
# with the names that occur and, for each file, their numbers in order. The
# module json is not in every python3, Debian's python3-minimal for one.
import ast, io, sys, tokenize

def text(s):
    plain = [c if " " <= c <= "~" and c not in '"\\' else "\\u%04x" % min(ord(c), 0xFFFD) for c in s]
    return '"' + "".join(plain) + '"'

def array(items):
    return "[" + ",".join(items) + "]"

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
        print('{"failed": %d, "why": %s}' % (len(numbers), text(f"{type(error).__name__}: {error}"[:300])))
        sys.exit(0)
    numbers.append([names.setdefault(kind, len(names)) for kind in kinds])
print('{"names": %s, "files": %s}' % (array(map(text, names)), array(array(map(str, file)) for file in numbers)))
