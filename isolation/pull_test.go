package isolation_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"podgrade/isolation"
	"podgrade/isolation/testimages"
)

// testRegistry is a registry in this process, which notes what it is asked.
type testRegistry struct {
	address string // host:port
	mu      sync.Mutex
	asked   []string // method and path
	answer  func(w http.ResponseWriter, r *http.Request) bool
}

// serveRegistry starts one, and tells Podman that it speaks no TLS. answer may
// answer a request in the registry's place.
func serveRegistry(t *testing.T, answer func(http.ResponseWriter, *http.Request) bool) *testRegistry {
	t.Helper()
	r := &testRegistry{answer: answer}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.asked = append(r.asked, q.Method+" "+q.URL.Path)
		r.mu.Unlock()
		if r.answer == nil || !r.answer(w, q) {
			inner.ServeHTTP(w, q)
		}
	}))
	t.Cleanup(server.Close)
	r.address = strings.TrimPrefix(server.URL, "http://")
	file := filepath.Join(t.TempDir(), "registries.conf")
	text := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", r.address)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", file)
	return r
}

// requests forgets and returns what the registry was asked.
func (r *testRegistry) requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// push puts a test image into the registry and returns its manifest's digest.
func (r *testRegistry) push(t *testing.T, repository string, i testimages.Image) string {
	t.Helper()
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return i.Open(), nil })
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(empty.Image, layer)
	if err == nil {
		made, err = mutate.ConfigFile(made, configOf(t, made, i))
	}
	if err != nil {
		t.Fatal(err)
	}
	layers, err := made.Layers()
	if err != nil {
		t.Fatal(err)
	}
	config, err := partial.ConfigLayer(made)
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(repository, ":")
	for _, layer := range append(layers, config) {
		r.pushBlob(t, repository, layer)
	}
	manifest, err := made.RawManifest()
	mediaType, typeErr := made.MediaType()
	digest, digestErr := made.Digest()
	if err := errors.Join(err, typeErr, digestErr); err != nil {
		t.Fatal(err)
	}
	r.send(t, http.MethodPut, "/v2/"+repository+"/manifests/"+tag, string(mediaType), bytes.NewReader(manifest))
	r.requests()
	return digest.String()
}

func (r *testRegistry) pushBlob(t *testing.T, repository string, blob v1.Layer) {
	t.Helper()
	digest, err := blob.Digest()
	if err != nil {
		t.Fatal(err)
	}
	content, err := blob.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	r.send(t, http.MethodPost, "/v2/"+repository+"/blobs/uploads/?digest="+digest.String(), "application/octet-stream", content)
}

func (r *testRegistry) send(t *testing.T, method, path, mediaType string, body io.Reader) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", mediaType)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%s %s: %s: %s", method, path, answer.Status, text)
	}
}

func configOf(t *testing.T, made v1.Image, i testimages.Image) *v1.ConfigFile {
	t.Helper()
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", platformArch(t)
	config.Config.User = i.Config.User
	return config
}

func platformArch(t *testing.T) string {
	t.Helper()
	_, arch, _ := strings.Cut(as(t, "").Pin.Platform, "/")
	arch, _, _ = strings.Cut(arch, "/")
	return arch
}

// another is a host of the test's own on the store that most tests share: its
// service has the variables that the test set.
func another(t *testing.T) *isolation.Host {
	t.Helper()
	host(t) // its store is made before
	h := start(t, options(t))
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// What the store has not is fetched once, and only where that was asked for;
// a cell of it is made, and what the store has is not asked for again.
func TestPullMissingFetchesWhatTheStoreHasNot(t *testing.T) {
	r := serveRegistry(t, nil)
	digest := r.push(t, "team/tool:1", testimages.BusyboxAs("1000"))
	h := another(t)
	wanted := r.address + "/team/tool:1"

	if _, err := h.EnsureImage(ctx(t), wanted, isolation.PullNever); !missing(err, wanted) {
		t.Errorf("without a pull: %v", err)
	}
	if asked := r.requests(); len(asked) > 0 {
		t.Errorf("without a pull the registry was asked: %q", asked)
	}
	got, err := h.EnsureImage(ctx(t), wanted, isolation.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	if got.Pin.Reference != wanted || got.Pin.Digest != digest || got.User != "1000" {
		t.Errorf("pulled %+v, user %q; want the digest %s", got.Pin, got.User, digest)
	}
	want(t, openOn(t, h, order(t, got)), "id -u; cat hello.txt", "1000\nhello\n")

	r.requests()
	again, err := h.EnsureImage(ctx(t), wanted, isolation.PullMissing)
	if err != nil || !again.Pin.Same(got.Pin) {
		t.Errorf("the second time: %s, %v", again.Pin, err)
	}
	if asked := r.requests(); len(asked) > 0 {
		t.Errorf("the second time the registry was asked: %q", asked)
	}
}

// A reference with a digest is fetched by it, whatever the tag beside it leads
// to now, and what is something else is not taken.
func TestAPullByDigestTakesNothingElse(t *testing.T) {
	lie := false
	r := serveRegistry(t, nil)
	first := r.push(t, "team/tool:1", testimages.Busybox())
	second := r.push(t, "team/tool:1", testimages.BusyboxAs("1000"))
	r.answer = func(w http.ResponseWriter, q *http.Request) bool {
		if lie && strings.HasSuffix(q.URL.Path, "/manifests/"+first) {
			q.URL.Path = strings.TrimSuffix(q.URL.Path, first) + second
		}
		return false
	}
	h := another(t)
	lie = true
	pinned := r.address + "/team/tool@" + first
	if got, err := h.EnsureImage(ctx(t), pinned, isolation.PullMissing); err == nil {
		t.Errorf("a registry that answers with another manifest is believed: %s", got.Pin)
	}
	lie = false
	for _, wanted := range []string{pinned, r.address + "/team/tool:1@" + first} {
		r.requests()
		got, err := h.EnsureImage(ctx(t), wanted, isolation.PullMissing)
		if err != nil || got.Pin.Digest != first || got.Pin.Reference != wanted {
			t.Fatalf("%s: %+v, %v", wanted, got.Pin, err)
		}
		if asked := r.requests(); slices.ContainsFunc(asked, func(s string) bool { return strings.HasSuffix(s, "/manifests/1") }) {
			t.Errorf("%s: the registry was asked for the tag: %q", wanted, asked)
		}
		if _, err := h.RunPodman(ctx(t), "rmi", "--force", got.Pin.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A registry that wants a log-in gets that of Podman's auth file.
func TestAPullUsesPodmansAuthFile(t *testing.T) {
	const user, password = "somebody", "let me in"
	r := serveRegistry(t, func(w http.ResponseWriter, q *http.Request) bool {
		if u, p, ok := q.BasicAuth(); ok && u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
		return true
	})
	closed := r.answer
	r.answer = nil
	r.push(t, "team/secret:1", testimages.Busybox())
	r.answer = closed
	h := another(t)
	wanted := r.address + "/team/secret:1"
	_, err := h.EnsureImage(ctx(t), wanted, isolation.PullMissing)
	if err == nil || !strings.Contains(err.Error(), "podman login") || errors.Is(err, isolation.ErrNoImage) {
		t.Errorf("without a log-in: %v", err)
	}
	file := filepath.Join(t.TempDir(), "auth.json")
	text := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.address, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, place := range []func(){
		func() { t.Setenv("REGISTRY_AUTH_FILE", file) },
		func() {
			t.Setenv("REGISTRY_AUTH_FILE", "")
			os.Unsetenv("REGISTRY_AUTH_FILE")
			dir := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "containers")
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.Rename(file, filepath.Join(dir, "auth.json"))); err != nil {
				t.Fatal(err)
			}
		},
	} {
		place()
		got, err := h.EnsureImage(ctx(t), wanted, isolation.PullMissing)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.RunPodman(ctx(t), "rmi", "--force", got.Pin.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// A pull that cannot be is one error that says what to do.
func TestAPullThatFailsSaysWhatToDo(t *testing.T) {
	r := serveRegistry(t, nil)
	r.push(t, "team/tool:1", testimages.Busybox())
	h := another(t)
	for _, test := range []struct {
		name, says string
		missing    bool
		kind       isolation.FaultKind
	}{
		{r.address + "/team/tool:2", "its registry has none", true, isolation.Infrastructure},
		{r.address + "/team/other:1", "its registry has none", true, isolation.Infrastructure},
		{r.address + "/team/tool@sha256:" + strings.Repeat("0", 64), "its registry has none", true, isolation.Infrastructure},
		{"127.0.0.1:1/team/tool:1", "check the network", false, isolation.Infrastructure},
		{"localhost/team/tool:1", "images that were made here", true, isolation.Refusal},
		{strings.Repeat("0", 64), "no name that a registry knows", false, isolation.Refusal},
		{"no-registry-has-this-short-name-of-ours", "write the registry into the name", false, isolation.Infrastructure},
	} {
		got, err := h.EnsureImage(ctx(t), test.name, isolation.PullMissing)
		if err == nil {
			t.Errorf("%s: pulled %s", test.name, got.Pin)
			continue
		}
		if !strings.Contains(err.Error(), test.says) || errors.Is(err, isolation.ErrNoImage) != test.missing || faultKind(err) != test.kind || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: kind %v, missing %v: %v", test.name, faultKind(err), errors.Is(err, isolation.ErrNoImage), err)
		}
	}
}

// Rows that start together pull an image once.
func TestRowsThatStartTogetherPullOnce(t *testing.T) {
	r := serveRegistry(t, nil)
	r.push(t, "team/tool:1", testimages.Busybox())
	h := another(t)
	var rows sync.WaitGroup
	errs := make([]error, 4)
	for n := range errs {
		rows.Go(func() { _, errs[n] = h.EnsureImage(ctx(t), r.address+"/team/tool:1", isolation.PullMissing) })
	}
	rows.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	manifests := 0
	for _, asked := range r.requests() {
		if strings.HasPrefix(asked, "GET ") && strings.Contains(asked, "/manifests/") {
			manifests++
		}
	}
	if manifests != 1 {
		t.Errorf("the manifest was fetched %d times", manifests)
	}
}
