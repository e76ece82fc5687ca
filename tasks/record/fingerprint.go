package record

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
)

// Fingerprint is what a run was configured with, by name. A later resume
// compares with it.
type Fingerprint map[string]any

// Write writes resume_fingerprint.json into the run directory, keys sorted.
func (f Fingerprint) Write(runDir string) error {
	return WriteBelow(runDir, nil, FingerprintFile, Encode(map[string]any(f)))
}

// maxFingerprint bounds what is read, in bytes.
const maxFingerprint = 4 << 20

// Drift names the settings that differ from those that the run was started
// with, sorted. A setting that only one side has is not compared, and neither
// is anything when there is no fingerprint that can be read (spec/cli.md 4.3).
func (f Fingerprint) Drift(runDir string) ([]string, error) {
	root, err := os.OpenRoot(runDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readPlain(root, FingerprintFile, maxFingerprint)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	before, err := ParseObject(data)
	if err != nil {
		return nil, nil
	}
	var names []string
	for name, now := range f {
		then, had := before.Get(name)
		if had && !bytes.Equal(relaid(then), relaid(Encode(now))) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// relaid is a value in one layout with sorted keys, so that equal values are
// equal bytes.
func relaid(raw Raw) []byte { return Encode(sortedKeysOf(nested(raw))) }

func sortedKeysOf(value any) any {
	switch v := value.(type) {
	case *Object:
		slices.SortFunc(v.members, func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) })
		for i := range v.members {
			v.members[i].value = sortedKeysOf(v.members[i].value)
		}
	case []any:
		for i := range v {
			v[i] = sortedKeysOf(v[i])
		}
	}
	return value
}
