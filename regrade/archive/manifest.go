package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Format and Version say what the file is. A reader refuses another version.
const (
	Format  = "podgrade-archive"
	Version = 1
)

// Names of the first entries, which are no parts.
const (
	ManifestName = "podgrade-archive.json"
	SumName      = "podgrade-archive.sha256"
)

// Bounds of what is read.
const (
	MaxManifest = 64 << 20 // bytes
	MaxRows     = 100_000
	MaxParts    = 1_000_000
)

// Manifest says what an archive holds.
type Manifest struct {
	Format  string  `json:"format"`
	Version int     `json:"version"`
	MadeBy  string  `json:"made_by"`
	Run     string  `json:"run,omitempty"` // part with the files of the run; "": rows alone travel
	Rows    []Row   `json:"rows"`
	Images  []Image `json:"images"`
	States  []State `json:"states"`
	Parts   []Part  `json:"parts"` // in the order in which they follow
}

// Row is one row. Its parts are archives of trees (tree.Pack).
type Row struct {
	VariantID string   `json:"variant_id"`
	TaskID    string   `json:"task_id"`
	Replicate int      `json:"replicate"`
	Files     string   `json:"files"`               // part: the files of the row directory
	Workspace string   `json:"workspace,omitempty"` // part: its artifacts, owners and all
	TaskDir   string   `json:"task_dir,omitempty"`  // part
	Reference string   `json:"reference,omitempty"` // part
	Image     string   `json:"image,omitempty"`     // id of one of the images
	States    []string `json:"states,omitempty"`    // diff ids of states
}

// Image is an image whose blobs are among the parts.
type Image struct {
	ID       string `json:"id"`       // sum of its configuration, in hexadecimal
	Manifest string `json:"manifest"` // sha256:..., of its manifest
	Platform string `json:"platform"`
}

// State is a state layer, whose archive is the blob that its diff id names.
type State struct {
	DiffID   string `json:"diff_id"`
	Image    string `json:"image"`              // id of what it lies above
	Manifest string `json:"manifest,omitempty"` // of the image and the layer together, where the image is here
	Entries  int    `json:"entries"`
}

// Part is one file of the archive.
type Part struct {
	Name    string `json:"name"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`            // in hexadecimal
	Entries int    `json:"entries,omitempty"` // of an archive of a tree
}

// partName is what names of parts look like: so short that each has one header.
var partName = regexp.MustCompile(`^(oci-layout|index\.json|run\.tar|blobs/sha256/[0-9a-f]{64}|trees/[0-9a-f]{64}\.tar|rows/[0-9]{5}/(files|workspace)\.tar)$`)

var (
	sum    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// maxPart is the largest size of one part, in bytes: what a header can say in
// the form that is used here.
const maxPart = 1 << 50

// encode is the one text of a manifest.
func (m *Manifest) encode() ([]byte, error) {
	m.Format, m.Version = Format, Version
	if err := m.check(); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	return append(text, '\n'), err
}

// Sum is the sum of the manifest's text, which names an archive.
func (m *Manifest) Sum() (string, error) {
	text, err := m.encode()
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:]), err
}

// ParseManifest reads the text of a manifest.
func ParseManifest(text []byte) (*Manifest, error) {
	var kind struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if kind.Format != Format {
		return nil, fmt.Errorf("its format is %q, and should be %s", clip(kind.Format), Format)
	}
	if kind.Version != Version {
		return nil, fmt.Errorf("its version is %d, and this podgrade reads version %d", kind.Version, Version)
	}
	m := &Manifest{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(m); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows it")
	}
	return m, m.check()
}

func clip(s string) string {
	const most = 100
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

// check refuses a manifest that contradicts itself: what it names must be there,
// once.
func (m *Manifest) check() error {
	if len(m.Rows) == 0 || len(m.Rows) > MaxRows || len(m.Parts) > MaxParts {
		return fmt.Errorf("it has %d rows and %d parts", len(m.Rows), len(m.Parts))
	}
	parts, sizes := map[string]bool{}, map[string]int64{}
	for _, p := range m.Parts {
		if !partName.MatchString(p.Name) || parts[p.Name] {
			return fmt.Errorf("%q is no name of a part, or there twice", clip(p.Name))
		}
		if p.Size < 0 || p.Size > maxPart || !sum.MatchString(p.SHA256) || p.Entries < 0 {
			return fmt.Errorf("the size, the sum or the entries of %s are wrong", p.Name)
		}
		// The number of entries bounds what is unpacked, so none may go without.
		if strings.HasSuffix(p.Name, ".tar") && p.Entries < 1 || int64(p.Entries)-1 > p.Size {
			return fmt.Errorf("%s has %d bytes, and cannot hold %d entries", p.Name, p.Size, p.Entries)
		}
		blob, isBlob := strings.CutPrefix(p.Name, blobDir)
		tree, isTree := strings.CutPrefix(p.Name, treeDir)
		if isBlob && blob != p.SHA256 || isTree && tree != p.SHA256+".tar" {
			return fmt.Errorf("%s has another sum than its name", p.Name)
		}
		parts[p.Name], sizes[p.Name] = true, p.Size
	}
	c := &checker{parts: parts, sizes: sizes, images: map[string]bool{}, states: map[string]bool{}, rows: map[string]bool{}, own: map[string]bool{}}
	return errors.Join(c.part("the run", m.Run, "run.tar"), c.all(m))
}

// blobDir is where the blobs of an OCI layout are.
const blobDir = "blobs/sha256/"

// BlobPart is the part that holds the blob of a digest (sha256:...).
func BlobPart(digest string) string { return blobDir + strings.TrimPrefix(digest, "sha256:") }

// treeDir is where the trees are that rows share, by their sums.
const treeDir = "trees/"

// TreePart is the part that holds the tree of a sum.
func TreePart(sum string) string { return treeDir + sum + ".tar" }

type checker struct {
	parts, images, states, rows map[string]bool
	sizes                       map[string]int64
	own                         map[string]bool // parts that one row has for itself
}

// part refuses a name of a part that is not there, or not of its kind.
func (c *checker) part(whose, name, kind string) error {
	if name == "" {
		return nil
	}
	if !c.parts[name] || !strings.HasPrefix(name, kind) && !strings.HasSuffix(name, kind) {
		return fmt.Errorf("%s names the part %q, which is not there", whose, clip(name))
	}
	return nil
}

func (c *checker) all(m *Manifest) error {
	for _, i := range m.Images {
		if !sum.MatchString(i.ID) || !digest.MatchString(i.Manifest) || c.images[i.ID] {
			return fmt.Errorf("the image %q is named wrongly, or twice", clip(i.ID))
		}
		if err := c.part("an image", BlobPart(i.Manifest), blobDir); err != nil {
			return err
		}
		c.images[i.ID] = true
	}
	for _, s := range m.States {
		if !digest.MatchString(s.DiffID) || !sum.MatchString(s.Image) || c.states[s.DiffID] || s.Entries < 0 {
			return fmt.Errorf("the state layer %q is named wrongly, or twice", clip(s.DiffID))
		}
		if err := c.part("a state layer", BlobPart(s.DiffID), blobDir); err != nil {
			return err
		}
		if int64(s.Entries) > c.sizes[BlobPart(s.DiffID)] {
			return fmt.Errorf("the state layer %s cannot hold %d entries", s.DiffID, s.Entries)
		}
		if s.Manifest != "" && !digest.MatchString(s.Manifest) {
			return fmt.Errorf("the manifest of the state layer %s is named wrongly", s.DiffID)
		}
		c.states[s.DiffID] = true
	}
	for n, r := range m.Rows {
		if err := c.row(n, r); err != nil {
			return err
		}
	}
	return errors.Join(unneeded(m), c.unnamed(m.Parts))
}

// unneeded refuses an image or a state layer that no row needs: nobody would have
// asked for it to be put into a store.
func unneeded(m *Manifest) error {
	needed := map[string]bool{}
	for _, r := range m.Rows {
		needed[r.Image] = true
		for _, state := range r.States {
			needed[state] = true
		}
	}
	for _, s := range m.States {
		if !needed[s.DiffID] {
			return fmt.Errorf("no row needs the state layer %s", s.DiffID)
		}
		needed[s.Image] = true
	}
	for _, i := range m.Images {
		if !needed[i.ID] {
			return fmt.Errorf("no row needs the image %s", i.ID)
		}
	}
	return nil
}

// RowPart is the part of a row, by its place among the rows: its files.tar or its
// workspace.tar.
func RowPart(n int, of string) string { return fmt.Sprintf("%s%05d/%s", rowDir, n, of) }

// Names of what a row has for itself.
const (
	rowDir       = "rows/"
	RowFiles     = "files.tar"
	RowWorkspace = "workspace.tar"
)

// row refuses a row that names parts of another one: what is unpacked once for
// each row would take more room than the archive has bytes.
func (c *checker) row(n int, r Row) error {
	key := fmt.Sprintf("%s/%s/%02d", r.VariantID, r.TaskID, r.Replicate)
	if r.TaskID == "" || r.VariantID == "" || r.Replicate < 0 || c.rows[key] {
		return fmt.Errorf("the row %q is named wrongly, or twice", clip(key))
	}
	c.rows[key] = true
	if r.Files == "" {
		return fmt.Errorf("the row %q has no files", clip(key))
	}
	for _, own := range []struct{ name, should string }{{r.Files, RowPart(n, RowFiles)}, {r.Workspace, RowPart(n, RowWorkspace)}} {
		if own.name == "" {
			continue
		}
		if own.name != own.should || !c.parts[own.name] {
			return fmt.Errorf("the row %q names the part %q, and should name %s, which should be there", clip(key), clip(own.name), own.should)
		}
		c.own[own.name] = true
	}
	for _, shared := range []string{r.TaskDir, r.Reference} {
		if err := c.part("a row", shared, treeDir); err != nil {
			return err
		}
	}
	if r.Image != "" && !sum.MatchString(r.Image) {
		return fmt.Errorf("the row %q names the image %q, which is no id", clip(key), clip(r.Image))
	}
	for _, state := range r.States {
		if !c.states[state] {
			return fmt.Errorf("the row %q names a state layer that is not there", clip(key))
		}
	}
	return nil
}

// unnamed refuses a part of rows that no row names.
func (c *checker) unnamed(parts []Part) error {
	for _, p := range parts {
		if strings.HasPrefix(p.Name, rowDir) && !c.own[p.Name] {
			return fmt.Errorf("no row names the part %s", p.Name)
		}
	}
	return nil
}
