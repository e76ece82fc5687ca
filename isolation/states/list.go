package states

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"podgrade/isolation/tree"
)

// file is a line of a layer's list.
type file struct {
	tree.FileSum
	shared bool // its bytes lie elsewhere
}

// Words of a line.
const (
	hereWord   = "here"
	sharedWord = "shared"
)

// format writes a list: a line a file, of its sum, its size, where its bytes are
// and its names, quoted as Go does.
func format(files []file) []byte {
	var text bytes.Buffer
	for _, f := range files {
		where := hereWord
		if f.shared {
			where = sharedWord
		}
		fmt.Fprintf(&text, "%s %d %s", f.SHA256, f.Size, where)
		for _, path := range f.Paths {
			text.WriteString(" " + strconv.QuoteToASCII(path))
		}
		text.WriteByte('\n')
	}
	return text.Bytes()
}

func parse(text []byte) (files []file, err error) {
	for n, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		f, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
		files = append(files, f)
	}
	return files, nil
}

func parseLine(line string) (f file, err error) {
	words := strings.SplitN(line, " ", 4)
	if len(words) != 4 || !isSum(words[0]) || words[2] != hereWord && words[2] != sharedWord {
		return f, errors.New("it says nothing of a file")
	}
	f.SHA256, f.shared = words[0], words[2] == sharedWord
	if f.Size, err = strconv.ParseInt(words[1], 10, 64); err != nil || f.Size < 0 {
		return f, fmt.Errorf("its size is %q", words[1])
	}
	for rest := words[3]; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return f, fmt.Errorf("a name: %w", err)
		}
		path, err := strconv.Unquote(quoted)
		if err != nil {
			return f, fmt.Errorf("a name: %w", err)
		}
		f.Paths, rest = append(f.Paths, path), rest[len(quoted):]
	}
	if len(f.Paths) == 0 {
		return f, errors.New("it names no file")
	}
	return f, nil
}

// isSum tells whether something is the name of a sum.
func isSum(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == sha256.Size && strings.ToLower(name) == name
}

// listOf reads the list of a complete layer. A layer that gave bytes up must not
// be read without it: its holes would be taken for its bytes.
func listOf(dir string) ([]file, error) {
	info, _, err := ReadInfo(dir)
	if err != nil || info.Files == "" {
		return nil, err
	}
	text, err := os.ReadFile(listFile(dir))
	if err == nil && sumOf(text) != info.Files {
		err = errors.New("it is not the one that was written")
	}
	var files []file
	if err == nil {
		files, err = parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read the list of its shared files: %w", ErrDamaged, err)
	}
	return files, nil
}

// formerListOf reads the list of a layer that is being removed, as far as it is
// still there: a line that cannot be read holds nothing, so that a damaged layer can
// be removed, and others have what is left of it.
func formerListOf(dir string) ([]file, error) {
	text, err := os.ReadFile(listFile(dir))
	if isMissing(err) || err == nil && len(text) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var files []file
	for line := range strings.Lines(string(text)) {
		f, err := parseLine(strings.TrimSuffix(line, "\n"))
		if err != nil {
			f = file{}
		}
		files = append(files, f)
	}
	return files, nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
