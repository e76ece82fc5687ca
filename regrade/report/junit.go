package report

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"

	"podgrade/policy"
	"podgrade/tasks/record"
)

// Names of the suites that hold no rows.
const (
	skippedSuite = "skipped"
	notRunSuite  = "not run"
	gatesSuite   = "suite-gates"
)

// mostBody is how many characters a failure says at most.
const mostBody = 10_000

// junitCase is one testcase. At most one of Failure, Error and Skipped is set.
type junitCase struct {
	XMLName    xml.Name         `xml:"testcase"`
	Name       string           `xml:"name,attr"`
	Class      string           `xml:"classname,attr"`
	Time       string           `xml:"time,attr"`
	Properties *junitProperties `xml:"properties"`
	Failure    *junitOutcome    `xml:"failure"`
	Error      *junitOutcome    `xml:"error"`
	Skipped    *junitOutcome    `xml:"skipped"`
}

type junitProperties struct {
	All []junitProperty `xml:"property"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitOutcome struct {
	Message string `xml:"message,attr"`
	Body    string `xml:",chardata"`
}

// junitSuite is a testsuite; make makes its cases one after another, so that
// a run of many rows is never held as a whole.
type junitSuite struct {
	name    string
	seconds float64
	tests   int
	failed  int
	errored int
	skipped int
	make    []func() *junitCase
}

// JUnit writes the run as JUnit XML (spec/run-record.md 7). The summary must
// be readable; the records of rows that failed, and suite files, are read where
// they can be.
func JUnit(w io.Writer, runDir string) error {
	s, err := record.ReadSummary(runDir)
	if err != nil {
		return err
	}
	suites := rowSuites(runDir, s)
	if n := s.NotRun(); n > 0 {
		suites = append(suites, suiteOfNotRun(n))
	}
	if suite := suiteOfSkipped(s); suite.tests > 0 {
		suites = append(suites, suite)
	}
	if suite := suiteOfGates(runDir); suite.tests > 0 {
		suites = append(suites, suite)
	}
	return writeJUnit(w, s, suites)
}

func writeJUnit(w io.Writer, s *record.Summary, suites []*junitSuite) error {
	buffered := bufio.NewWriter(w)
	buffered.WriteString(xml.Header)
	encoder := xml.NewEncoder(buffered)
	encoder.Indent("", "  ")
	total := &junitSuite{name: s.RunID, seconds: s.End.Sub(s.Start).Seconds()}
	for _, suite := range suites {
		total.tests += suite.tests
		total.failed += suite.failed
		total.errored += suite.errored
		total.skipped += suite.skipped
	}
	root := total.start("testsuites")
	if err := encoder.EncodeToken(root); err != nil {
		return err
	}
	for _, suite := range suites {
		start := suite.start("testsuite")
		if err := encoder.EncodeToken(start); err != nil {
			return err
		}
		if err := inOrder(suite.make, func(c *junitCase) error { return encoder.Encode(c) }); err != nil {
			return err
		}
		if err := encoder.EncodeToken(start.End()); err != nil {
			return err
		}
	}
	if err := encoder.EncodeToken(root.End()); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}
	buffered.WriteString("\n")
	return buffered.Flush()
}

// inOrder makes cases side by side, some ahead of the one that is written, and
// gives them to write in their order.
func inOrder(list []func() *junitCase, write func(*junitCase) error) error {
	ahead := 2 * runtime.GOMAXPROCS(0)
	made := make([]chan *junitCase, len(list))
	begin := func(i int) {
		made[i] = make(chan *junitCase, 1)
		go func() { made[i] <- list[i]() }()
	}
	for i := range min(ahead, len(list)) {
		begin(i)
	}
	for i := range list {
		c := <-made[i]
		made[i] = nil
		if next := i + ahead; next < len(list) {
			begin(next)
		}
		if err := write(c); err != nil {
			return err
		}
	}
	return nil
}

func (s *junitSuite) start(element string) xml.StartElement {
	attribute := func(name, value string) xml.Attr { return xml.Attr{Name: xml.Name{Local: name}, Value: value} }
	return xml.StartElement{Name: xml.Name{Local: element}, Attr: []xml.Attr{
		attribute("name", policy.Neutral(s.name)),
		attribute("tests", strconv.Itoa(s.tests)),
		attribute("failures", strconv.Itoa(s.failed)),
		attribute("errors", strconv.Itoa(s.errored)),
		attribute("skipped", strconv.Itoa(s.skipped)),
		attribute("time", junitTime(s.seconds)),
	}}
}

// rowSuites is one suite for each variant, in the order of the rows.
func rowSuites(runDir string, s *record.Summary) []*junitSuite {
	var all []*junitSuite
	byVariant := map[string]*junitSuite{}
	for _, row := range s.Rows {
		suite := byVariant[row.VariantID]
		if suite == nil {
			suite = &junitSuite{name: row.VariantID}
			byVariant[row.VariantID] = suite
			all = append(all, suite)
		}
		suite.tests++
		suite.seconds += max(0, row.Duration)
		switch category := row.Status.Category(); {
		case category == record.Failed:
			suite.failed++
		case category == record.Errored, gradeFailed(row):
			suite.errored++
		case category == record.Ungraded:
			suite.skipped++
		}
		suite.make = append(suite.make, func() *junitCase { return caseOf(runDir, row) })
	}
	return all
}

func caseOf(runDir string, row *record.SummaryRow) *junitCase {
	doc := row.Document()
	c := &junitCase{
		Name:  policy.Neutral(fmt.Sprintf("%s[%02d]", row.TaskID, row.Replicate)),
		Class: policy.Neutral(className(row.VariantID, doc)), Time: junitTime(row.Duration), Properties: propertiesOf(doc),
	}
	outcome := &junitOutcome{Message: policy.Neutral(string(row.Status))}
	switch row.Status.Category() {
	case record.Failed:
		c.Failure = outcome
	case record.Errored:
		c.Error = outcome
	case record.Ungraded:
		if gradeFailed(row) {
			c.Error = &junitOutcome{Message: "executed, not graded: " + policy.Clip(doc.Text(record.FieldErrorMessage), mostCell)}
			return c
		}
		c.Skipped = &junitOutcome{Message: "executed, not graded"}
		return c
	default:
		return c
	}
	outcome.Body = bodyOf(runDir, row.Identity, doc)
	return c
}

// gradeFailed tells whether a row that was executed was to be graded, and could not be.
func gradeFailed(row *record.SummaryRow) bool {
	return row.Status.Category() == record.Ungraded && row.Document().Text(record.FieldErrorMessage) != ""
}

// className is the name of the task file without its ending.
func className(variant string, row *record.Object) string {
	file := row.Text("task_path")
	base := path.Base(strings.ReplaceAll(file, `\`, "/"))
	if stem := strings.TrimSuffix(base, path.Ext(base)); file != "" && stem != "" {
		return stem
	}
	return variant
}

func propertiesOf(row *record.Object) *junitProperties {
	p := &junitProperties{}
	for _, key := range []string{record.FieldModelUsed, record.FieldWeightedScore, "total_cost_usd", "total_tokens", "visible_turns"} {
		if value := row.Value(key); !value.IsNull() {
			p.All = append(p.All, junitProperty{Name: key, Value: policy.Clip(short(value), mostCell)})
		}
	}
	for _, stamp := range record.Stamps(row) {
		p.All = append(p.All, junitProperty{Name: stamp.Name, Value: policy.Clip(short(stamp.Value), mostCell)})
	}
	if len(p.All) == 0 {
		return nil
	}
	return p
}

// bodyOf says why a row did not pass: its message, and each of its criteria.
func bodyOf(runDir string, id record.Identity, row *record.Object) string {
	var b strings.Builder
	if message := row.Text(record.FieldErrorMessage); message != "" {
		b.WriteString(message + "\n")
	}
	for _, result := range resultsOf(runDir, id) {
		mark := "FAIL"
		switch {
		case !result.Evaluated:
			mark = "not evaluated"
		case !result.Gating:
			mark = "informational"
		case result.Passed:
			mark = "pass"
		}
		fmt.Fprintf(&b, "%s %.3f %s\n", mark, result.Score, result)
		if b.Len() > 2*mostBody {
			break
		}
	}
	return policy.NeutralText(cutText(b.String(), mostBody))
}

// resultsOf reads the row's record; none when it cannot be read.
func resultsOf(runDir string, id record.Identity) []record.CriterionResult {
	row, err := record.OpenBelow(runDir, id)
	if err != nil {
		return nil
	}
	defer row.Close()
	r, _, err := row.Read()
	if err != nil {
		return nil
	}
	return r.CriterionResults()
}

// suiteOfNotRun is an error: who reads only this must not take a run that was
// interrupted for a whole one.
func suiteOfNotRun(n int) *junitSuite {
	return &junitSuite{name: notRunSuite, tests: 1, errored: 1, make: []func() *junitCase{func() *junitCase {
		return &junitCase{
			Name: "rows that were not run", Class: notRunSuite, Time: junitTime(0),
			Error: &junitOutcome{Message: fmt.Sprintf("%d more rows of the run were not run", n)},
		}
	}}}
}

func suiteOfSkipped(s *record.Summary) *junitSuite {
	suite := &junitSuite{name: skippedSuite, tests: len(s.Skipped), skipped: len(s.Skipped)}
	for _, skip := range s.Skipped {
		suite.make = append(suite.make, func() *junitCase {
			return &junitCase{
				Name: policy.Clip(skip.Path, mostCell), Class: skippedSuite, Time: junitTime(0),
				Skipped: &junitOutcome{Message: policy.Clip(skip.Reason, mostCell)},
			}
		})
	}
	return suite
}

func suiteOfGates(runDir string) *junitSuite {
	suite := &junitSuite{name: gatesSuite}
	for _, gate := range record.ReadGates(runDir) {
		suite.tests++
		if !gate.Passed {
			suite.failed++
		}
		suite.make = append(suite.make, func() *junitCase {
			c := &junitCase{Name: policy.Neutral(gate.VariantID + "/" + gate.SuiteID), Class: gatesSuite, Time: junitTime(0)}
			if !gate.Passed {
				c.Failure = &junitOutcome{Message: "a threshold was missed", Body: policy.NeutralText(cutText(strings.Join(gate.Missed, "\n"), mostBody))}
			}
			return c
		})
	}
	return suite
}

func junitTime(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || seconds < 0 {
		seconds = 0
	}
	return strconv.FormatFloat(seconds, 'f', 3, 64)
}

// cutText shortens a text to a number of characters.
func cutText(text string, most int) string {
	n := 0
	for i := range text {
		if n == most {
			return text[:i] + "..."
		}
		n++
	}
	return text
}
