package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// Write writes an archive. open gives the content of a part; what it gives must
// be what the manifest says.
func Write(to io.Writer, m *Manifest, open func(p Part) (io.ReadCloser, error)) error {
	text, err := m.encode()
	if err != nil {
		return fmt.Errorf("make the manifest: %w", err)
	}
	digest := sha256.Sum256(text)
	for _, first := range []struct {
		name string
		text []byte
	}{{ManifestName, text}, {SumName, sumText(digest)}} {
		if err := writeFile(to, first.name, int64(len(first.text)), func() error {
			_, err := to.Write(first.text)
			return err
		}); err != nil {
			return err
		}
	}
	for _, p := range m.Parts {
		if err := writeFile(to, p.Name, p.Size, func() error { return writePart(to, p, open) }); err != nil {
			return err
		}
	}
	_, err = to.Write(make([]byte, endSize))
	return err
}

// sumText is the content of SumName.
func sumText(digest [sha256.Size]byte) []byte { return []byte(hex.EncodeToString(digest[:]) + "\n") }

func writeFile(to io.Writer, name string, size int64, content func() error) error {
	head, err := header(name, size)
	if err != nil {
		return err
	}
	if _, err := to.Write(head); err != nil {
		return err
	}
	if err := content(); err != nil {
		return err
	}
	_, err = to.Write(make([]byte, padding(size)))
	return err
}

func writePart(to io.Writer, p Part, open func(p Part) (io.ReadCloser, error)) error {
	content, err := open(p)
	if err != nil {
		return err
	}
	defer content.Close()
	seen := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, seen), content)
	if err == nil && (n != p.Size || hex.EncodeToString(seen.Sum(nil)) != p.SHA256) {
		err = fmt.Errorf("%s changed while the archive was written", p.Name)
	}
	return err
}
