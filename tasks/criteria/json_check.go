package criteria

import (
	"context"
	"errors"
	"fmt"

	"podgrade/tasks"
	"podgrade/tasks/criteria/jmespath"
	"podgrade/tasks/criteria/python"
)

// jsonCheck judges a JSON file by a schema and assertions (task-file 7.7).
// Upstream's guide takes the mean of both; its code gives 0.0 when the schema
// is violated, and so do we: assertions about a document of the wrong shape
// prove nothing (task-file 9).
func (j *judging) jsonCheck(ctx context.Context, c *tasks.JSONCheck) (outcome, error) {
	file, err := j.one(ctx, c.Path)
	if err != nil {
		return outcome{}, err
	}
	document, err := j.json(ctx, file.name)
	var bad *python.JSONError
	if errors.As(err, &bad) {
		text := fmt.Sprintf("Invalid JSON in '%s': %v", file.name, bad)
		return outcome{details: text, err: text}, nil
	}
	if err != nil {
		return outcome{}, err
	}
	p := newParts(file)
	if c.JSONSchema != "" {
		problem, err := j.schemaProblem(ctx, c.JSONSchema, document)
		if err != nil {
			return outcome{}, err
		}
		p.scores = append(p.scores, binary(problem == ""))
		if problem != "" {
			p.line("Schema: "+problem, "", nil)
			return p.outcome(), nil
		}
		p.line("Schema: valid.", "", nil)
	}
	if err := j.assertions(p, document, c.Assertions); err != nil {
		return outcome{}, err
	}
	return p.outcome(), nil
}

// json reads a JSON file. The error may be a *python.JSONError.
func (j *judging) json(ctx context.Context, name string) (any, error) {
	text, err := j.text(ctx, j.where.Cell, name)
	if err != nil {
		return nil, err
	}
	return python.LoadJSON(text)
}

// assertions scores passed/total. One that raises has failed.
func (j *judging) assertions(p *parts, document any, assertions []tasks.JSONAssertion) error {
	if len(assertions) == 0 {
		return nil
	}
	passed := 0
	var failed []string
	for _, a := range assertions {
		holds, why, err := j.assertion(document, a)
		if err != nil {
			return err
		}
		if holds {
			passed++
			continue
		}
		text := a.Expression + " " + a.Operator
		if a.Operator != tasks.OpExists {
			text += " " + show(python.FromGo(a.Expected))
		}
		failed = append(failed, text+" ("+why+")")
	}
	p.scores = append(p.scores, float64(passed)/float64(len(assertions)))
	p.line(fmt.Sprintf("Assertions: %d of %d hold.", passed, len(assertions)), "Failed", failed)
	return nil
}

// assertion evaluates one assertion; why says what it found instead.
func (j *judging) assertion(document any, a tasks.JSONAssertion) (holds bool, why string, err error) {
	expression, err := jmespath.Parse(a.Expression)
	if err != nil {
		return false, "invalid JMESPath: " + err.Error(), nil
	}
	actual, err := expression.Search(document)
	if err != nil {
		return false, err.Error(), nil
	}
	holds, err = j.operator(actual, a.Operator, python.FromGo(a.Expected))
	var raised *trouble
	var bad *badPattern
	switch {
	case errors.Is(err, python.ErrUnorderable), errors.As(err, &bad), errors.As(err, &raised):
		return false, "found " + show(actual) + ": " + err.Error(), nil
	case err != nil:
		return false, "", err
	}
	return holds, "found " + show(actual), nil
}

// orderings are the operators of native ordering.
var orderings = map[string]string{
	tasks.OpGT: python.Greater, tasks.OpGTE: python.GreaterEqual,
	tasks.OpLT: python.Less, tasks.OpLTE: python.LessEqual,
}

// operator applies an operator to values of Python.
func (j *judging) operator(actual any, operator string, expected any) (bool, error) {
	switch operator {
	case tasks.OpEquals:
		return python.Equal(actual, expected), nil
	case tasks.OpNotEquals:
		return !python.Equal(actual, expected), nil
	case tasks.OpContains:
		return python.Contains(actual, expected)
	case tasks.OpGT, tasks.OpGTE, tasks.OpLT, tasks.OpLTE:
		return python.Ordered(actual, orderings[operator], expected)
	case tasks.OpType:
		name, ok := expected.(string)
		return ok && jmespath.TypeName(actual) == name, nil
	case tasks.OpRegex:
		text, ok := actual.(string)
		pattern, isText := expected.(string)
		if !ok || !isText {
			return false, nil
		}
		_, found, err := j.search(pattern, 0, text)
		return found, err
	case tasks.OpExists:
		return actual != nil, nil
	}
	return false, misusef("json_check operator '%s' is unknown", operator)
}

// show writes a value for details.
func show(v any) string {
	text, err := python.DumpJSON(v, false, 2*matchedLimit)
	switch {
	case errors.Is(err, python.ErrTooMuchJSON):
		kept, _ := python.Cut(text, matchedLimit)
		return kept + "..."
	case err != nil:
		return "no JSON value"
	}
	return cutNote(text, matchedLimit)
}
