package python_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"podgrade/tasks/criteria/python"
	"podgrade/tasks/internal/peer"
)

// csvScript writes each table with csv.writer, reads that and our text back
// with csv.reader, and says what each of these came to.
const csvScript = `
import csv, io, json, sys
def value(kind, text):
    return {"none": lambda: None, "bool": lambda: text == "true", "int": lambda: int(text),
            "float": lambda: float.fromhex(text), "str": lambda: text}[kind]()
out = []
for case in json.load(sys.stdin):
    table = [[value(*field) for field in row] for row in case["table"]]
    file = io.StringIO(newline="")
    csv.writer(file).writerows(table)
    out.append({
        "written": file.getvalue(),
        "read": list(csv.reader(io.StringIO(case["ours"], newline=""))),
        "meant": [["" if v is None else str(v) for v in row] for row in table],
    })
json.dump(out, sys.stdout)
`

// csvTexts are pieces of fields that dialects differ about.
var csvTexts = []string{"", "a", "bc", ",", ",", `"`, `"`, `""`, "\r\n", "\n", "\r", " ", "  ", "\t", ";", "'", `\`, `\.`, `\"`, "é", "日", "😀", "\u2028", "\u0085", "\v", "\f", "\x1c", "\x00", "\ufeff", "=1+1", "-1", "1.0", "#", "NULL", "None"}

// csvValue is a field: of us, and as kind and text for Python.
func csvValue(g *rand.Rand) (value any, field [2]string) {
	switch g.IntN(12) {
	case 0:
		return nil, [2]string{"none", ""}
	case 1:
		b := g.IntN(2) == 0
		return b, [2]string{"bool", fmt.Sprint(b)}
	case 2:
		i := g.Int64() >> g.IntN(64)
		return i, [2]string{"int", fmt.Sprint(i)}
	case 3:
		f := math.Float64frombits(g.Uint64())
		if g.IntN(2) == 0 {
			f = math.Round(g.NormFloat64()*1e4) / 1e3
		}
		if math.IsNaN(f) {
			return f, [2]string{"float", "nan"}
		}
		return f, [2]string{"float", fmt.Sprintf("%x", f)}
	}
	var b strings.Builder
	for range g.IntN(5) {
		b.WriteString(csvTexts[g.IntN(len(csvTexts))])
	}
	return b.String(), [2]string{"str", b.String()}
}

// TestCSVAgreesWithPython: of 500 tables, what we write is byte for byte what
// csv.writer writes, and csv.reader reads it back to the same fields.
func TestCSVAgreesWithPython(t *testing.T) {
	type table struct {
		Table [][][2]string `json:"table"`
		Ours  string        `json:"ours"`
	}
	g := rand.New(rand.NewPCG(15, 16))
	cases := make([]table, 500)
	for i := range cases {
		cases[i].Table = make([][][2]string, 1+g.IntN(4))
		for r := range cases[i].Table {
			width := 1 + g.IntN(5)
			row := make([]any, width)
			fields := make([][2]string, width)
			for f := range row {
				row[f], fields[f] = csvValue(g)
			}
			cases[i].Table[r] = fields
			cases[i].Ours += python.CSVLine(row)
		}
	}
	var want []struct {
		Written string
		Read    [][]string
		Meant   [][]string
	}
	peer.Ask(t, csvScript, cases, &want)
	quoted, plain, alone := 0, 0, 0
	for i, c := range cases {
		if c.Ours != want[i].Written {
			t.Errorf("table %v\nis     %q\nPython %q", c.Table, c.Ours, want[i].Written)
		}
		if got, meant := asJSON(t, want[i].Read), asJSON(t, want[i].Meant); got != meant {
			t.Errorf("Python reads %q back as\n%s, and it was\n%s", c.Ours, got, meant)
		}
		for _, row := range want[i].Meant {
			for _, field := range row {
				if strings.ContainsAny(field, ",\"\r\n") {
					quoted++
				} else {
					plain++
				}
			}
			if len(row) == 1 && row[0] == "" {
				alone++
			}
		}
	}
	t.Logf("%d tables: %d fields quoted, %d not, %d rows of one empty field", len(cases), quoted, plain, alone)
	if quoted < 500 || plain < 500 || alone < 20 {
		t.Error("the tables show too little")
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
