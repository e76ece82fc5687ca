package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"podgrade/policy"
)

// dotenvFile is the file of the current directory that variables are taken
// from. The directory may be a stranger's: the file fills only what is not set,
// of a fixed list (design: Trust).
const dotenvFile = ".env"

// maxDotenv caps what is read of it, in bytes.
const maxDotenv = 64 << 10

// logVariable says how much is told of what happens; logAll is its value for as
// much as --verbose tells.
const (
	logVariable = "LOG_LEVEL"
	logAll      = "DEBUG"
)

// dotenvNames are the variables that the file may set: keys of providers and
// models, how they are reached, and where runs lie (spec/cli.md 10). Nothing in
// it says how podgrade, Podman, a shell or a loader works.
var dotenvNames = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "OPENROUTER_API_KEY", "TYPESAFE_API_KEY",
	"CODEX_API_KEY", "CODEX_BASE_URL", "CODEX_MODEL", "CODEX_API_VERSION", "GEMINI_API_KEY", "ANTIGRAVITY_MODEL",
	"API_BACKEND", "CLAUDE_CODE_USE_BEDROCK", "AWS_BEARER_TOKEN_BEDROCK", "AWS_REGION", "BEDROCK_MODEL", "BEDROCK_SMALL_MODEL",
	"LITELLM_BASE_URL", "LITELLM_AUTH_TOKEN", "LITELLM_MODEL", "LITELLM_SMALL_MODEL",
	runsVariable, logVariable,
}

// dotenvAddresses are the variables that say where a key is sent, by the key's:
// the file must not send a key to an address that it does not hold itself.
var dotenvAddresses = map[string]string{"CODEX_BASE_URL": "CODEX_API_KEY", "LITELLM_BASE_URL": "LITELLM_AUTH_TOKEN"}

// takeDotenv takes variables from the file, for the verbs that use them, and
// says which. A file that cannot be used is a warning: it may be meant for
// another program.
func takeDotenv(c *cli.Context) error {
	text, err := readDotenv(dotenvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	warn := func(why string) {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s is not used: %s\n", dotenvFile, policy.Neutral(why))
	}
	if err != nil {
		warn(err.Error())
		return nil
	}
	values, bad := parseDotenv(text)
	for _, line := range bad {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s:%d is left out: it is not NAME=VALUE\n", dotenvFile, line)
	}
	taken, left := fromDotenv(values, os.LookupEnv)
	for _, why := range left {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s: %s\n", dotenvFile, why)
	}
	for _, name := range taken {
		if err := os.Setenv(name, values[name]); err != nil {
			warn(err.Error())
			return nil
		}
	}
	if len(taken) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "taken from %s: %s\n", dotenvFile, strings.Join(taken, ", "))
	}
	return nil
}

// readDotenv reads the file, which must be a regular one of the caller or of
// root: what another user put there is theirs to use.
func readDotenv(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || owner.Uid != 0 && owner.Uid != uint32(os.Geteuid()) {
		return nil, errors.New("it belongs to another user")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxDotenv+1))
	if err == nil && len(text) > maxDotenv {
		err = fmt.Errorf("it is larger than %d bytes", maxDotenv)
	}
	return text, err
}

// fromDotenv chooses what is taken: of the fixed list, and not set. It says why
// an address is left out.
func fromDotenv(values map[string]string, lookup func(string) (string, bool)) (taken, left []string) {
	for _, name := range dotenvNames {
		if _, given := values[name]; !given {
			continue
		}
		if _, set := lookup(name); set {
			continue
		}
		if key := dotenvAddresses[name]; key != "" {
			if _, set := lookup(key); set {
				left = append(left, fmt.Sprintf("%s is not taken, since %s is set outside of the file, and would be sent there", name, key))
				continue
			}
		}
		taken = append(taken, name)
	}
	return taken, left
}

// parseDotenv reads NAME=VALUE, one a line: a word export before it, quotes
// around the value, empty lines and comments are allowed. Nothing is expanded.
// The numbers of lines that are something else are returned too.
func parseDotenv(text []byte) (values map[string]string, bad []int) {
	values = map[string]string{}
	for i, line := range bytes.Split(text, []byte("\n")) {
		name, value, ok := dotenvLine(strings.TrimSpace(string(line)))
		switch {
		case !ok:
			bad = append(bad, i+1)
		case name != "":
			values[name] = value
		}
	}
	return values, bad
}

// dotenvLine reads one line; the name of an empty one is "".
func dotenvLine(line string) (name, value string, ok bool) {
	if line == "" || line[0] == '#' {
		return "", "", true
	}
	line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
	name, value, found := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !found || !isVariable(name) || strings.ContainsRune(value, 0) {
		return "", "", false
	}
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		quote := value[:1]
		inner, rest, closed := strings.Cut(value[1:], quote)
		rest = strings.TrimSpace(rest)
		return name, inner, closed && (rest == "" || rest[0] == '#')
	}
	if at := strings.Index(value, " #"); at >= 0 {
		value = strings.TrimSpace(value[:at])
	}
	return name, value, true
}

// isVariable tells whether the text can be the name of a variable.
func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// tellsAll tells whether as much is told as --verbose tells.
func tellsAll(c *cli.Context) bool {
	return c.Bool("verbose") || strings.EqualFold(os.Getenv(logVariable), logAll)
}
