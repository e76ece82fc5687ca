package criteria

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"podgrade/tasks/criteria/python"
)

// schemaURL is the name under which the schema is compiled. It has no host and
// nothing is loaded from it.
const schemaURL = "file:///schema.json"

// schemaProblem validates a document by the schema file at name. The problem
// is empty when it is valid; a schema that is missing or bad is a problem too.
func (j *judging) schemaProblem(ctx context.Context, name string, document any) (problem string, err error) {
	file, err := j.one(ctx, name)
	if err == nil {
		var schema any
		if schema, err = j.json(ctx, file.name); err == nil {
			return j.validate(schema, document)
		}
	}
	var none *missing
	var several *ambiguous
	var leading *outside
	var raised *trouble
	var bad *python.JSONError
	if errors.As(err, &none) || errors.As(err, &several) || errors.As(err, &leading) || errors.As(err, &raised) || errors.As(err, &bad) {
		return fmt.Sprintf("'%s' cannot be used: %v", name, err), nil
	}
	return "", err
}

// validate compiles and applies a schema: draft 2020-12 unless it names
// another, no format assertions, nothing loaded from anywhere, patterns as
// Python's.
func (j *judging) validate(schema, document any) (problem string, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			problem, err = fmt.Sprintf("fault of the library: %.200v", fault), nil
		}
	}()
	rawSchema, err := schemaValue(schema)
	if err != nil {
		return "the schema is not usable: " + err.Error(), nil
	}
	rawDocument, err := schemaValue(document)
	if err != nil {
		return err.Error(), nil
	}
	engine := &schemaPatterns{judging: j}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refuseLoad{})
	compiler.UseRegexpEngine(engine.compile)
	for _, name := range formatNames {
		compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	if err := compiler.AddResource(schemaURL, rawSchema); err != nil {
		return "the schema is malformed: " + oneLine(err), nil
	}
	compiled, err := compiler.Compile(schemaURL)
	if engine.failed != nil {
		return "", engine.failed
	}
	if err != nil {
		return "the schema is malformed: " + oneLine(err), nil
	}
	invalid := compiled.Validate(rawDocument)
	switch {
	case engine.failed != nil:
		return "", engine.failed
	case invalid != nil:
		return "violated: " + oneLine(invalid), nil
	}
	return "", nil
}

// formatNames are the formats that drafts up to 7 assert by default and
// Python's jsonschema does not.
var formatNames = []string{
	"json-pointer", "relative-json-pointer", "uuid", "duration", "period", "ipv4", "ipv6", "hostname", "email",
	"date", "time", "date-time", "uri", "uri-reference", "uri-template", "iri", "iri-reference", "regex", "semver",
}

// refuseLoad loads nothing: a schema may come from the agent.
type refuseLoad struct{}

func (refuseLoad) Load(url string) (any, error) {
	return nil, fmt.Errorf("'%s' is another document, and schemas are not loaded from elsewhere", url)
}

// schemaPatterns compiles the patterns of a schema as Python's. The library
// has no way to report a failed search, so the first one is kept.
type schemaPatterns struct {
	judging *judging
	failed  error
}

// compile gives a pattern that only podgrade cannot run the score 0.0: the
// schema lies in the sandbox, so the agent may have written it, and must not be
// able to void a verdict.
func (s *schemaPatterns) compile(pattern string) (jsonschema.Regexp, error) {
	re, err := s.judging.compile(pattern, 0)
	if unsupported := (*misuse)(nil); errors.As(err, &unsupported) {
		s.failed = troublef("NotImplementedError", "the schema cannot be applied: %s", unsupported.reason)
	}
	return schemaPattern{s, re, pattern}, err
}

type schemaPattern struct {
	owner   *schemaPatterns
	re      *python.Regex
	pattern string
}

func (p schemaPattern) String() string { return p.pattern }

func (p schemaPattern) MatchString(text string) bool {
	if p.owner.failed != nil {
		return false
	}
	_, found, err := find(p.re, p.pattern, text)
	if err != nil {
		p.owner.failed = err
	}
	return found
}

// schemaValue turns a value into the types that the library takes. NaN and
// infinity have no meaning to it.
func schemaValue(v any) (any, error) {
	switch v := v.(type) {
	case *big.Int:
		return json.Number(v.String()), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s cannot be judged by a schema", python.FormatFloat(v))
		}
		return v, nil
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			converted, err := schemaValue(element)
			if err != nil {
				return nil, err
			}
			out[i] = converted
		}
		return out, nil
	case *python.Dict:
		out := make(map[string]any, v.Len())
		for _, key := range v.Keys() {
			element, _ := v.Get(key)
			converted, err := schemaValue(element)
			if err != nil {
				return nil, err
			}
			out[key] = converted
		}
		return out, nil
	}
	return v, nil
}

// oneLine is an error of the library as one line of bounded length.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return cutNote(text, 2*reasonLimit)
}
