package criteria

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"podgrade/tasks"
)

// AuthorError says that a criterion asks for what cannot be checked: a path
// that leads out of the sandbox, a pattern that cannot be translated
// (task-file 7.0, "checker misuse"). There is no verdict then, and the record
// stays as it was.
type AuthorError struct {
	Index       int // of the criterion, from 0
	Type        string
	Description string
	Reason      string // what is wrong, and what to do
}

func (e *AuthorError) Error() string {
	return fmt.Sprintf("criterion %d (%s: %s): %s", e.Index+1, e.Type, e.Description, e.Reason)
}

// InfrastructureError says that a criterion could not be checked and why; it
// is no fault of task or agent, and the row can be graded again.
type InfrastructureError struct {
	Index       int // of the criterion, from 0
	Type        string
	Description string
	Err         error
}

func (e *InfrastructureError) Error() string {
	return fmt.Sprintf("criterion %d (%s: %s) could not be checked: %v", e.Index+1, e.Type, e.Description, e.Err)
}

// Unwrap returns the cause.
func (e *InfrastructureError) Unwrap() error { return e.Err }

// misuse is an author error before Check adds which criterion it is of.
type misuse struct{ reason string }

func (e *misuse) Error() string { return e.reason }

func misusef(format string, args ...any) error { return &misuse{fmt.Sprintf(format, args...)} }

// trouble is what a checker of the compatible system would raise as a Python
// exception: the criterion scores 0.0 and the record names the class.
type trouble struct{ class, message string }

func (e *trouble) Error() string { return e.class + ": " + e.message }

func troublef(class, format string, args ...any) error {
	return &trouble{class, fmt.Sprintf(format, args...)}
}

// outside: a link leads out of the sandbox. The agent can make one of any file
// that a criterion expects, so it scores 0.0; an author error would leave the
// row without a verdict.
type outside struct{ name string }

func (e *outside) Error() string {
	return fmt.Sprintf("A link leads out of the sandbox, where nothing is looked at: '%s'", e.name)
}

// shown is a name of the record, short enough to be read with what is said of it.
func shown(name string) string {
	const most = 300
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s... (%d more bytes)", strings.ToValidUTF8(name[:most], ""), len(name)-most)
}

// escape is what the criterion makes of a name that leads outside of root, the
// sandbox: the author's mistake when the name itself says so.
func escape(name, root string) error {
	if leaves(name, root) {
		return misusef("the path '%s' leads outside of the sandbox; name a file of the workspace", shown(name))
	}
	return &outside{name}
}

// leaves tells whether a name leads out of root whatever the files are. Of an
// absolute name without a root it does.
func leaves(name, root string) bool {
	if root == "" {
		return !filepath.IsLocal(name)
	}
	if !path.IsAbs(name) {
		name = path.Join(root, name)
	}
	return !strings.HasPrefix(path.Clean(name)+"/", strings.TrimSuffix(root, "/")+"/")
}

// fileTrouble turns an error of Files about name into what the criterion makes
// of it: a trouble, a misuse, or the error itself when the place is lost. What
// leads outside is the business of escape.
func fileTrouble(err error, name string) error {
	for _, known := range []struct {
		is      error
		class   string
		message string
	}{
		{ErrNotExist, "FileNotFoundError", "[Errno 2] No such file or directory: '%s'"},
		{ErrNotRegular, "OSError", "not a regular file: '%s'"},
		{ErrNotDir, "NotADirectoryError", "[Errno 20] Not a directory: '%s'"},
		{ErrTooLarge, "OSError", "file is larger than podgrade reads: '%s'"},
		{ErrDenied, "PermissionError", "[Errno 13] Permission denied: '%s'"},
		{ErrIO, "OSError", "[Errno 5] Input/output error: '%s'"},
	} {
		if errors.Is(err, known.is) {
			return troublef(known.class, known.message, name)
		}
	}
	if errors.Is(err, ErrEscapes) {
		return &outside{name}
	}
	return err
}

// classify gives an error of a checker the name of its criterion.
func classify(err error, index int, common *tasks.Common) error {
	var author *misuse
	if errors.As(err, &author) {
		return &AuthorError{index, common.Type, common.Description, author.reason}
	}
	return &InfrastructureError{index, common.Type, common.Description, err}
}
