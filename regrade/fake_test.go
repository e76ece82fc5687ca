package regrade

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"podgrade/isolation"
	"podgrade/isolation/protocol"
	"podgrade/oci"
	"podgrade/policy"
	"podgrade/tasks"
	"podgrade/tasks/record"
	"podgrade/tasks/record/fixture"
)

const (
	byod    = "../tasks/testdata/coder-eval/tasks/byod_smoke_test.yaml"
	imageID = "1111111111111111111111111111111111111111111111111111111111111111"
	otherID = "2222222222222222222222222222222222222222222222222222222222222222"
)

// fakeEngines stands in for the isolation layer. Its cells read the real
// workspace and answer commands by a function.
type fakeEngines struct {
	times    string                     // of the workspace; "": those that were signed
	building error                      // of a build
	images   map[string]isolation.Image // by reference and by id
	run      func(cell *fakeCell, line string, out io.Writer) (isolation.Exit, error)
	made     isolation.Made
	startup  error // of Open
	layers   error // of CheckImage
	hazards  []string

	room func() isolation.Room // nil: no disk is full

	changes   []isolation.Change // that commands made; "made" is what the files hold
	unchanged error              // of Changes

	mu       sync.Mutex
	policies []isolation.PullPolicy // of EnsureImage
	looked   []string               // references and ids of images
	orders   []isolation.Order
	states   []string // diff ids of kept state layers
	onHost   int
	started  int
	lost     bool
	closed   int
	cells    []*fakeCell
	held     []string // ids of images
	released int
	emptied  []string // directories
}

func (f *fakeEngines) start(context.Context) (Engines, error) {
	f.started++
	return f, nil
}

func (f *fakeEngines) Image(_ context.Context, reference string) (isolation.Image, error) {
	f.mu.Lock()
	f.looked = append(f.looked, reference)
	f.mu.Unlock()
	if image, ok := f.images[reference]; ok {
		return image, nil
	}
	return isolation.Image{}, fmt.Errorf("look up %s: %w", reference, isolation.ErrNoImage)
}

func (f *fakeEngines) EnsureImage(ctx context.Context, reference string, policy isolation.PullPolicy) (isolation.Image, error) {
	f.policies = append(f.policies, policy)
	return f.Image(ctx, reference)
}

func (f *fakeEngines) HasState(diffID string) bool { return slices.Contains(f.states, diffID) }

func (f *fakeEngines) ImageByPin(ctx context.Context, pin oci.Pin) (isolation.Image, error) {
	return f.Image(ctx, pin.ID)
}

func (f *fakeEngines) Open(_ context.Context, order isolation.Order) (isolation.Cell, error) {
	return f.open(order, false)
}

func (f *fakeEngines) OpenOnHost(_ context.Context, order isolation.Order) (isolation.Cell, error) {
	return f.open(order, true)
}

func (f *fakeEngines) open(order isolation.Order, host bool) (isolation.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if host {
		f.onHost++
	}
	f.orders = append(f.orders, order)
	if f.startup != nil {
		return nil, f.startup
	}
	cell := &fakeCell{engines: f, order: order, made: f.made, host: host}
	cell.made.Engine = "bundle"
	cell.made.View = isolation.View{Kind: "copy", Reason: "small", Digest: "sha256:tree"}
	if order.View == isolation.ViewOverlay || order.View == isolation.ViewBind {
		cell.made.View = isolation.View{Kind: order.View, Reason: "asked for", Digest: "sha256:tree"}
	}
	cell.made.View.Times = cmp.Or(f.times, "sha256:times")
	cell.made.View.Hazards = f.hazards
	cell.made.Home = "/root"
	if host {
		cell.made.Engine = "host"
	} else {
		cell.made.Pin = order.Image.Pin
		cell.made.SpecSHA256 = "spec"
	}
	f.cells = append(f.cells, cell)
	return cell, nil
}

func (f *fakeEngines) Hold(_ context.Context, image isolation.Image) (func() error, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = append(f.held, image.Pin.ID)
	return func() error { f.released++; return nil }, nil
}

func (f *fakeEngines) Build(context.Context, isolation.BuildOrder) (oci.Pin, error) {
	return oci.Pin{}, f.building
}

func (f *fakeEngines) RemoveTree(_ context.Context, dir *os.File) error {
	f.mu.Lock()
	f.emptied = append(f.emptied, dir.Name())
	f.mu.Unlock()
	entries, err := dir.ReadDir(-1)
	for _, entry := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir.Name(), entry.Name())))
	}
	return err
}

func (f *fakeEngines) Lost() bool { return f.lost }

func (f *fakeEngines) Close() error {
	f.closed++
	return nil
}

// fakeCell is a cell of fakeEngines.
type fakeCell struct {
	engines *fakeEngines
	order   isolation.Order
	made    isolation.Made
	host    bool
	closed  bool
	ran     []isolation.Command
	put     map[string]string // content by path
	ended   []isolation.Process
	answer  func(isolation.Call) isolation.Reply // of recorded commands
}

// Put implements isolation.Cell.
func (c *fakeCell) Put(_ context.Context, base, name string, entry isolation.Entry, content io.Reader) error {
	text := entry.Target
	if content != nil {
		all, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		text = string(all)
	}
	if c.put == nil {
		c.put = map[string]string{}
	}
	c.put[filepath.Join(base, name)] = text
	return nil
}

// Remove implements isolation.Cell.
func (c *fakeCell) Remove(_ context.Context, base, name string) error {
	path := filepath.Join(base, name)
	maps.DeleteFunc(c.put, func(put, _ string) bool { return put == path || strings.HasPrefix(put, path+"/") })
	return nil
}

// Record implements isolation.Cell.
func (c *fakeCell) Record(_ context.Context, answer func(isolation.Call) isolation.Reply) error {
	c.answer = answer
	return nil
}

// Changes implements isolation.Cell.
func (c *fakeCell) Changes(_ context.Context, _ isolation.Bound, take func(isolation.Change, io.Reader) error) (isolation.Changed, error) {
	var changed isolation.Changed
	for _, change := range c.engines.changes {
		changed.Created++
		if err := take(change, strings.NewReader("made")); err != nil {
			return changed, err
		}
	}
	return changed, c.engines.unchanged
}

// Room implements isolation.Cell.
func (c *fakeCell) Room(context.Context) (isolation.Room, error) {
	if c.engines.room == nil {
		return isolation.Room{}, nil
	}
	return c.engines.room(), nil
}

// EndProcesses implements isolation.Cell.
func (c *fakeCell) EndProcesses(context.Context) ([]isolation.Process, error) { return c.ended, nil }

// KeepBefore implements isolation.Cell.
func (c *fakeCell) KeepBefore(context.Context) (isolation.StateLayer, error) {
	return isolation.StateLayer{}, nil
}

// Settle implements isolation.Cell.
func (c *fakeCell) Settle(context.Context, isolation.Settle) (isolation.Settled, error) {
	return isolation.Settled{Digest: "sha256:tree", Times: "sha256:times"}, nil
}

func (c *fakeCell) Run(ctx context.Context, command isolation.Command) (isolation.Exit, error) {
	if c.closed {
		return isolation.Exit{}, isolation.ErrCellLost
	}
	c.ran = append(c.ran, command)
	if c.engines.run == nil {
		return isolation.Exit{}, nil
	}
	return c.engines.run(c, command.Argv[len(command.Argv)-1], command.Stdout)
}

func (c *fakeCell) Stat(_ context.Context, base, name string) (protocol.File, error) {
	path := name
	if !filepath.IsAbs(name) {
		path = filepath.Join(base, name)
	}
	host, ok := strings.CutPrefix(path, oci.WorkspacePath)
	if !ok {
		if base != "/" {
			return protocol.File{}, isolation.ErrEscapes
		}
		if slices.Contains([]string{"/usr/bin", "/bin", "/opt/agent/bin"}, path) {
			return protocol.File{Name: name, Path: path, Type: protocol.Directory}, nil
		}
		return protocol.File{}, isolation.ErrNotExist
	}
	info, err := os.Stat(filepath.Join(c.order.Workspace, host))
	if err != nil {
		return protocol.File{}, isolation.ErrNotExist
	}
	file := protocol.File{Name: name, Path: path, Type: protocol.Regular, Size: info.Size()}
	if info.IsDir() {
		file.Type = protocol.Directory
	}
	return file, nil
}

func (c *fakeCell) Read(_ context.Context, base, name string, limit int64, w io.Writer) (protocol.File, error) {
	data, err := os.ReadFile(filepath.Join(c.order.Workspace, name))
	if err != nil {
		return protocol.File{}, isolation.ErrNotExist
	}
	if int64(len(data)) > limit {
		return protocol.File{}, isolation.ErrTooLarge
	}
	_, err = w.Write(data)
	return protocol.File{Name: name}, err
}

func (c *fakeCell) List(context.Context, string, string, int64) ([]protocol.File, error) {
	return []protocol.File{{Name: "l", Path: oci.WorkspacePath + "/l", Type: protocol.Regular, Link: true}}, nil
}

func (c *fakeCell) Places() isolation.Places {
	if c.host {
		return isolation.Places{Workspace: oci.WorkspacePath, TaskDir: "/private/task", Reference: "/private/reference"}
	}
	return isolation.Places{Workspace: oci.WorkspacePath, TaskDir: oci.TaskDirPath, Reference: oci.ReferencesPath, Recorder: oci.InitPath}
}

func (c *fakeCell) CheckImage(context.Context) error { return c.engines.layers }
func (c *fakeCell) Made() isolation.Made             { return c.made }
func (c *fakeCell) Close() error {
	c.closed = true
	return nil
}

// env is the environment of the cell's first command.
func (c *fakeCell) env() map[string]string {
	env := map[string]string{}
	for _, entry := range c.ran[0].Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// newFake knows the image of the byod task, in which the marker exists.
func newFake() *fakeEngines {
	image := isolation.Image{
		Pin: oci.Pin{Reference: "byod-custom-image:0.1.0", ID: imageID, Digest: "sha256:d", Platform: oci.HostPlatform()},
		Env: []string{"PATH=/usr/bin:/bin", "FROM_IMAGE=1", "HOME=/wrong"},
	}
	return &fakeEngines{
		images: map[string]isolation.Image{"byod-custom-image:0.1.0": image, imageID: image},
		run: func(cell *fakeCell, line string, _ io.Writer) (isolation.Exit, error) {
			if cell.host {
				return isolation.Exit{Code: 1}, nil
			}
			return isolation.Exit{Duration: time.Millisecond}, nil
		},
	}
}

// rowCase is a row that is graded in a test.
type rowCase struct {
	t       *testing.T
	fake    *fakeEngines
	dir     string // row directory
	options Options
	notice  bytes.Buffer
	host    map[string]string // variables of the host
	before  []byte
}

// newCase writes a row; change edits what it is made of.
func newCase(t *testing.T, form fixture.Form, change func(*fixture.Order)) *rowCase {
	t.Helper()
	o := fixture.Order{Task: byod, Out: t.TempDir(), Form: form, Pin: oci.Pin{ID: imageID, Platform: oci.HostPlatform()},
		Files: map[string]string{"answer.txt": "42\n"}}
	if change != nil {
		change(&o)
	}
	dir, err := fixture.Write(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &rowCase{t: t, fake: newFake(), dir: dir, host: map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/caller"}}
	c.options = Options{
		Answer:  policy.Answer{RecordedCommands: true},
		Start:   c.fake.start,
		Notice:  &c.notice,
		Version: "9.9.9",
		Lookup: func(name string) (string, bool) {
			value, ok := c.host[name]
			return value, ok
		},
	}
	return c
}

func (c *rowCase) file(name string) string {
	data, err := os.ReadFile(filepath.Join(c.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return string(data)
}

// edit replaces text of the record.
func (c *rowCase) edit(old, new string) {
	c.t.Helper()
	text := c.file(record.TaskFile)
	if !strings.Contains(text, old) {
		c.t.Fatalf("the record holds no %q", old)
	}
	path := filepath.Join(c.dir, record.TaskFile)
	if err := os.WriteFile(path, []byte(strings.Replace(text, old, new, 1)), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rowCase) grade() (*Verdict, error) {
	c.t.Helper()
	return c.gradeWith(context.Background())
}

func (c *rowCase) gradeWith(ctx context.Context) (*Verdict, error) {
	c.t.Helper()
	c.before = []byte(c.file(record.TaskFile))
	row, err := record.OpenRow(c.dir)
	if err != nil {
		c.t.Fatal(err)
	}
	defer row.Close()
	verdict, err := Grade(ctx, row, c.options)
	if c.fake.started != c.fake.closed {
		c.t.Errorf("engines started %d times, closed %d times", c.fake.started, c.fake.closed)
	}
	for i, cell := range c.fake.cells {
		if !cell.closed {
			c.t.Errorf("cell %d was left open", i)
		}
	}
	return verdict, err
}

// pass grades, and fails the test on an error.
func (c *rowCase) pass() *Verdict {
	c.t.Helper()
	verdict, err := c.grade()
	if err != nil {
		c.t.Fatalf("grade: %v\n%s", err, c.notice.String())
	}
	FollowsSchema(c.t, c.file(record.TaskFile))
	return verdict
}

// refused grades, and expects an error of a kind with a text, a record with
// the same bytes, and no start of an engine unless it says so.
func (c *rowCase) refused(kind Kind, text string, started bool) {
	c.t.Helper()
	_, err := c.grade()
	if err == nil {
		c.t.Fatal("graded")
	}
	if KindOf(err) != kind || !strings.Contains(err.Error(), text) {
		c.t.Errorf("%s: %v; want %s, %q", KindOf(err), err, kind, text)
	}
	if (c.fake.started > 0) != started {
		c.t.Errorf("engines started: %d", c.fake.started)
	}
	c.unchanged()
}

// unchanged checks that the record has the bytes that it had.
func (c *rowCase) unchanged() {
	c.t.Helper()
	if c.file(record.TaskFile) != string(c.before) {
		c.t.Error("the record was changed")
	}
	if c.file(record.ExecuteFile) != "" {
		c.t.Error("a copy of the record was made")
	}
}

func (c *rowCase) record() *record.Record {
	c.t.Helper()
	r, err := record.Parse([]byte(c.file(record.TaskFile)))
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func stampText(v *Verdict) string {
	var all []string
	for _, s := range v.Stamps {
		all = append(all, s.Name+"="+string(s.Value))
	}
	return strings.Join(all, " ")
}

// criteriaOf replaces the criteria of the byod task.
func criteriaOf(list ...tasks.Criterion) func(*fixture.Order) {
	return func(o *fixture.Order) {
		o.Change = func(t *tasks.Task) { t.SuccessCriteria = list }
	}
}

func runCommand(line string) *tasks.RunCommand {
	return &tasks.RunCommand{Base: base(tasks.TypeRunCommand, line), Command: line, Timeout: 5, StdoutMatch: "exact"}
}

func fileExists(path string) *tasks.FileExists {
	return &tasks.FileExists{Base: base(tasks.TypeFileExists, path), Path: path}
}

func base(kind, description string) tasks.Common {
	return tasks.Common{Type: kind, Description: description, Weight: 1, PassThreshold: 0.9}
}

func specWith(capabilities ...string) *specs.Spec {
	return &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: capabilities}}}
}
