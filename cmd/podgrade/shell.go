package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"podgrade/isolation"
	"podgrade/regrade"
)

const shellHelp = `Opens the cell in which the row in ROW would be graded, and runs a shell in it,
where and as a criterion's command would run: the same image, user, environment,
view of the workspace, and seal. What the record asks for is listed and must be
accepted, as for evaluate. Nothing is written: what the shell changes is gone
when it ends. Without a terminal the shell reads commands from standard input.

Exit codes: 0 the shell ended with 0; 1 with another code, or the cell could not
be opened; 2 the command line is wrong, or consent is missing; 130 interrupted.`

func shellCommand() *cli.Command {
	return &cli.Command{
		Name:         "shell",
		Usage:        "open the cell in which a row would be graded",
		ArgsUsage:    "ROW",
		Description:  shellHelp,
		Flags:        gradeFlags(),
		OnUsageError: usageError,
		Before:       takeDotenv, // as evaluate
		Action:       openShell,
	}
}

func openShell(c *cli.Context) error {
	if c.NArg() != 1 {
		return usage(c, "shell takes one row directory, and %s given", argumentsWere(c.NArg()))
	}
	options, err := gradeOptions(c)
	if err != nil {
		return err
	}
	if options.View == isolation.ViewBind {
		return usage(c, "a shell changes nothing, and under --workspace-view bind it would")
	}
	if err := askFor(c, []regrade.Target{{Dir: c.Args().First()}}, &options); err != nil {
		return err
	}
	row, err := regrade.OpenRow(c.Args().First())
	if err != nil {
		return err
	}
	defer row.Close()
	session := regrade.Session{In: typed(os.Stdin), Out: c.App.Writer, Err: c.App.ErrWriter}
	if isTerminal(os.Stdin) {
		at := &keyboard{fd: int(os.Stdin.Fd()), sizes: make(chan isolation.Size), over: make(chan struct{})}
		defer at.leave()
		size := at.size()
		session.Terminal, session.Resized, session.Begin = &size, at.sizes, at.enter
		session.Environment = []string{"TERM=" + os.Getenv("TERM")}
	}
	code, err := regrade.Shell(c.Context, row, options, session)
	if err == nil && code != 0 {
		return verdictFailed()
	}
	return err
}

// typed is what comes from standard input, whose reads do not end when somebody
// closes it: hence the pipe.
func typed(in *os.File) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	return r
}

// keyboard is the operator's own terminal, at which a shell in a cell is used.
type keyboard struct {
	fd     int
	before *unix.Termios // nil: it is as it was
	sizes  chan isolation.Size
	over   chan struct{}
}

// enter lets every key through to the shell, whose own terminal does the rest,
// and begins to tell of new sizes.
func (k *keyboard) enter() {
	before, err := unix.IoctlGetTermios(k.fd, unix.TCGETS)
	if err != nil {
		return
	}
	raw := *before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(k.fd, unix.TCSETS, &raw) == nil {
		k.before = before
	}
	go k.watch()
}

// watch tells of new sizes until the end.
func (k *keyboard) watch() {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-changed:
		case <-k.over:
			return
		}
		select {
		case k.sizes <- k.size():
		case <-k.over:
			return
		}
	}
}

// leave makes the terminal what it was.
func (k *keyboard) leave() {
	close(k.over)
	if k.before != nil {
		unix.IoctlSetTermios(k.fd, unix.TCSETS, k.before)
	}
}

// size is the terminal's; one that does not say has the usual one.
func (k *keyboard) size() isolation.Size {
	if size, err := unix.IoctlGetWinsize(k.fd, unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
		return isolation.Size{Rows: size.Row, Columns: size.Col}
	}
	return isolation.Size{Rows: 24, Columns: 80}
}
