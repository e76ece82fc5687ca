package isolation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/distribution/reference"

	"podgrade/isolation/libpod"
)

// PullPolicy says whether an image may be fetched from its registry.
type PullPolicy string

// The policies.
const (
	PullNever   PullPolicy = "never"   // what Podman's store has not is missing
	PullMissing PullPolicy = "missing" // what Podman's store has not is fetched
)

// PullPolicies are those that can be asked for.
func PullPolicies() []string { return []string{string(PullNever), string(PullMissing)} }

// EnsureImage looks an image up in Podman's store and, where the policy says
// so, fetches what the store has not: by its digest where the reference has
// one, with the log-ins of Podman's auth file, as its registries.conf says.
// What the store has is never asked for again. It is for the execute phase
// only: a grade never pulls.
func (h *Host) EnsureImage(ctx context.Context, name string, policy PullPolicy) (Image, error) {
	image, err := h.Image(ctx, name)
	if policy != PullMissing || !errors.Is(err, ErrNoImage) {
		return image, err
	}
	h.pulling.Lock() // rows that start together want one image
	defer h.pulling.Unlock()
	if image, err = h.Image(ctx, name); !errors.Is(err, ErrNoImage) {
		return image, err
	}
	source, err := pullSource(name)
	if err != nil {
		return Image{}, err
	}
	return h.pull(ctx, name, source)
}

func (h *Host) pull(ctx context.Context, name, source string) (Image, error) {
	s, err := h.podmanService(ctx)
	if err != nil {
		return Image{}, err
	}
	pulled, err := s.api.ask(ctx, libpod.Call{Pull: &libpod.Pull{Reference: source, AuthFile: os.Getenv(authFileVariable)}})
	if ctx.Err() != nil {
		return Image{}, ctx.Err()
	}
	if err == nil && pulled.Image == "" {
		err = errors.New("podman says that it is done and names no image")
	}
	if err != nil {
		return Image{}, pullFault(name, err)
	}
	image, err := h.Image(ctx, pulled.Image)
	image.Pin.Reference = name
	return image, err
}

// authFileVariable names Podman's auth file where it is not in its usual place.
const authFileVariable = "REGISTRY_AUTH_FILE"

// localDomain begins the names of images that were made on this machine.
const localDomain = "localhost"

// MadeHere tells whether the name is one of an image that was made on this
// machine, so that no registry has it.
func MadeHere(name string) bool { return strings.HasPrefix(name, localDomain+"/") }

// GetImage is what to do about an image that the store has not.
func GetImage(name string) string {
	return "see those that there are with `podgrade images ls`, or make it: `podgrade images import TAR " + name + "`, or `podgrade images build`"
}

// pullSource is what a registry is asked for: the digest alone where there is
// one, since a tag beside it says nothing more. A name without a registry is
// left to Podman's configuration.
func pullSource(name string) (string, error) {
	refuse := func(why error, do string) (string, error) {
		return "", &Fault{Kind: Refusal, Tried: "pull the image", On: name, Why: why, Do: do}
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return refuse(fmt.Errorf("it is no name that a registry knows: %w", err), "name it as REGISTRY/NAME:TAG or REGISTRY/NAME@DIGEST")
	}
	if reference.Domain(named) == localDomain {
		return refuse(fmt.Errorf("%w, and no registry has it: names of %s/ are of images that were made here", ErrNoImage, localDomain), GetImage(name))
	}
	if digested, ok := named.(reference.Digested); ok {
		bare, _, _ := strings.Cut(name, "@")
		if tagged, ok := named.(reference.Tagged); ok {
			bare = strings.TrimSuffix(bare, ":"+tagged.Tag())
		}
		return bare + "@" + digested.Digest().String(), nil
	}
	return name, nil
}

// pullProblems are what registries and Podman say about the usual problems,
// and what to do about them.
var pullProblems = []struct {
	words   []string
	missing bool // the registry has no such image
	do      string
}{
	{words: []string{"unauthorized", "authentication required", "access to the resource is denied", "no basic auth credentials"},
		do: "log in with podman login REGISTRY; the name may also be wrong: registries do not tell"},
	{words: []string{"manifest unknown", "name unknown", "repository name not known", "name_unknown", "manifest_unknown"}, missing: true,
		do: "correct the name, or make the image with podgrade images"},
	{words: []string{"server gave http response to https client"},
		do: "its registry speaks no TLS: Podman's registries.conf must say insecure = true for it"},
	{words: []string{"short-name"},
		do: "write the registry into the name, such as docker.io/library/NAME:TAG"},
	{words: []string{"no such host", "connection refused", "network is unreachable", "i/o timeout", "temporary failure in name resolution", "server misbehaving"},
		do: "check the network, or bring the image as a file: podgrade images import FILE"},
}

func pullFault(name string, err error) error {
	why := saidByPodman(err)
	f := &Fault{Tried: "pull the image", On: name, Why: why, Do: "see what `podman pull` says, or bring the image as a file: podgrade images import FILE"}
	text := strings.ToLower(why.Error())
	for _, problem := range pullProblems {
		for _, words := range problem.words {
			if !strings.Contains(text, words) {
				continue
			}
			f.Do = problem.do
			if problem.missing {
				f.Why = fmt.Errorf("%w, and its registry has none: %w", ErrNoImage, why)
			}
			return f
		}
	}
	return f
}

// requestNoise is what the bindings say before why a request could not be made: its
// address, which can be long.
var requestNoise = regexp.MustCompile(`^(?:Error: )?(?:Delete|Get|Head|Post|Put) "http://d/(?:[^"\\]|\\.)*": `)

// saidByPodman is an error of Podman's service as one line that says whose
// words they are.
func saidByPodman(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = requestNoise.ReplaceAllString(text, "")
	for _, noise := range []string{"Error: ", "error: ", "1 error occurred: * "} {
		text = strings.TrimPrefix(text, noise)
	}
	return fmt.Errorf("podman said: %s", strings.TrimSpace(text))
}
