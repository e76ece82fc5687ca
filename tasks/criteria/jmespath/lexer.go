package jmespath

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"podgrade/tasks/criteria/python"
)

// SyntaxError says that an expression is no JMESPath.
type SyntaxError struct {
	Reason string
	Offset int // in bytes
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s at offset %d", e.Reason, e.Offset)
}

// tokenKind tells what a token is.
type tokenKind string

const (
	tokenEnd    tokenKind = "end of expression"
	tokenName   tokenKind = "name"
	tokenQuoted tokenKind = "quoted name"
	tokenNumber tokenKind = "number"
	tokenValue  tokenKind = "literal"
	// All other kinds are spelled as they are written.
)

// token is one word of an expression.
type token struct {
	kind  tokenKind
	text  string // of names
	value any    // of numbers and literals
	start int
}

// operators in the order in which they are tried: longer ones first.
var operators = []tokenKind{
	"[]", "[?", "||", "&&", "<=", ">=", "!=", "==",
	".", "*", "]", ",", ":", "@", "(", ")", "{", "}", "[", "|", "&", "<", ">", "!",
}

// tokenize splits an expression. The last token is tokenEnd.
func tokenize(text string) ([]token, error) {
	var tokens []token
	for i := 0; i < len(text); {
		if strings.IndexByte(" \t\n\r", text[i]) >= 0 {
			i++
			continue
		}
		t, length, err := nextToken(text, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		i += length
	}
	return append(tokens, token{kind: tokenEnd, start: len(text)}), nil
}

func nextToken(text string, at int) (token, int, error) {
	rest := text[at:]
	switch c := rest[0]; {
	case isNameStart(c):
		n := 1
		for n < len(rest) && (isNameStart(rest[n]) || isDigit(rest[n])) {
			n++
		}
		return token{kind: tokenName, text: rest[:n], start: at}, n, nil
	case isDigit(c) || c == '-':
		return numberToken(rest, at)
	case c == '"' || c == '\'' || c == '`':
		return delimited(rest, at)
	}
	for _, operator := range operators {
		if strings.HasPrefix(rest, string(operator)) {
			return token{kind: operator, start: at}, len(operator), nil
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return token{}, 0, &SyntaxError{fmt.Sprintf("unknown token %q", string(r)), at}
}

func isNameStart(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func numberToken(rest string, at int) (token, int, error) {
	n := 1
	for n < len(rest) && isDigit(rest[n]) {
		n++
	}
	value, err := python.ParseInt(rest[:n])
	if err != nil {
		return token{}, 0, &SyntaxError{fmt.Sprintf("unknown token '%s'", rest[:min(n, 20)]), at}
	}
	return token{kind: tokenNumber, value: value, start: at}, n, nil
}

// delimited reads a quoted name, a raw string or a JSON literal.
func delimited(rest string, at int) (token, int, error) {
	delimiter := rest[0]
	end := 1
	for end < len(rest) && rest[end] != delimiter {
		if rest[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(rest) {
		return token{}, 0, &SyntaxError{fmt.Sprintf("unclosed %c delimiter", delimiter), at}
	}
	body := rest[1:end]
	t := token{kind: tokenValue, start: at}
	switch delimiter {
	case '\'':
		t.value = strings.ReplaceAll(body, `\'`, `'`)
	case '"':
		value, err := python.LoadJSON(rest[:end+1])
		if err != nil {
			return token{}, 0, &SyntaxError{err.Error(), at}
		}
		t.kind = tokenQuoted
		t.text = value.(string)
	default:
		value, err := literal(strings.ReplaceAll(body, "\\`", "`"))
		if err != nil {
			return token{}, 0, &SyntaxError{fmt.Sprintf("bad literal '%s'", body), at}
		}
		t.value = value
	}
	return t, end + 1, nil
}

// literal reads what stands between backquotes: JSON, or text that is JSON
// once it is quoted, which Python's implementation still takes.
func literal(body string) (any, error) {
	value, err := python.LoadJSON(body)
	if err == nil {
		return value, nil
	}
	return python.LoadJSON(`"` + strings.TrimLeftFunc(body, python.IsSpace) + `"`)
}
