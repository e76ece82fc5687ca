package calls

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	buildah "github.com/containers/buildah/define"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/containers"
	"github.com/containers/podman/v5/pkg/bindings/images"
	"github.com/containers/podman/v5/pkg/domain/entities/types"
	"github.com/containers/podman/v5/pkg/errorhandling"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/containers/podman/v5/pkg/util"

	"podgrade/isolation/libpod"
)

// answer asks the service.
func (c connection) answer(ctx context.Context, call libpod.Call, in io.Reader, said io.Writer) libpod.Answer {
	ctx = c.with(ctx)
	answer := libpod.Answer{ID: call.ID}
	var err error
	switch {
	case call.Create != nil:
		err = create(ctx, call.Create)
	case call.Inspect != "":
		answer.Container, err = inspect(ctx, call.Inspect)
	case call.Start != "":
		err = containers.Start(ctx, call.Start, nil)
	case call.Wait != "":
		answer.Code, err = containers.Wait(ctx, call.Wait, new(containers.WaitOptions).WithInterval("5ms"))
	case call.Remove != "":
		_, err = containers.Remove(ctx, call.Remove, new(containers.RemoveOptions).WithForce(true).WithTimeout(0))
	case call.Pull != nil:
		answer.Image, err = pull(ctx, call.Pull)
	case call.Import != nil:
		answer.Image, err = importTar(ctx, call.Import, in)
	case call.Build != nil:
		answer.Image, err = build(ctx, call.Build, said)
	default:
		err = errors.New("a call that asks nothing that this podgrade-libpod knows: install podgrade and podgrade-libpod together")
	}
	answer.Error = asError(err)
	return answer
}

func asError(err error) *libpod.Error {
	if err == nil {
		return nil
	}
	var model *errorhandling.ErrorModel
	return &libpod.Error{
		Message: err.Error(), Lost: isLost(err),
		NotFound: errors.As(err, &model) && model.ResponseCode == http.StatusNotFound,
	}
}

// isLost tells an end of the connection from an answer.
func isLost(err error) bool {
	var network *net.OpError
	var request *url.Error
	var connecting bindings.ConnectError
	return errors.As(err, &network) || errors.As(err, &request) || errors.As(err, &connecting) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func create(ctx context.Context, request json.RawMessage) error {
	s := &specgen.SpecGenerator{}
	if err := json.Unmarshal(request, s); err != nil {
		return err
	}
	_, err := containers.CreateWithSpec(ctx, s, nil)
	return err
}

func inspect(ctx context.Context, name string) (*libpod.Container, error) {
	found, err := containers.Inspect(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	c := &libpod.Container{}
	if state := found.State; state != nil {
		c.PID, c.Status, c.Running = state.Pid, state.Status, state.Running
	}
	return c, nil
}

func pull(ctx context.Context, p *libpod.Pull) (string, error) {
	options := new(images.PullOptions).WithQuiet(true)
	if p.AuthFile != "" {
		options = options.WithAuthfile(p.AuthFile)
	}
	ids, err := images.Pull(ctx, p.Reference, options)
	if err != nil || len(ids) == 0 {
		return "", err
	}
	return ids[0], nil
}

func importTar(ctx context.Context, i *libpod.Import, tar io.Reader) (string, error) {
	options := new(images.ImportOptions).WithReference(i.Reference).WithChanges(i.Changes)
	if i.Platform != "" {
		parts := append(strings.Split(i.Platform, "/"), "", "")
		options = options.WithOS(parts[0]).WithArchitecture(parts[1]).WithVariant(parts[2])
	}
	report, err := images.Import(ctx, tar, options)
	if err != nil {
		return "", err
	}
	return report.Id, nil
}

func build(ctx context.Context, b *libpod.Build, said io.Writer) (string, error) {
	excludes, err := excluded(b)
	if err != nil {
		return "", err
	}
	report, err := images.Build(ctx, []string{b.Containerfile}, types.BuildOptions{BuildOptions: buildah.BuildOptions{
		Output: b.Reference, ContextDirectory: b.ContextDir, Args: b.Args, Excludes: excludes,
		ConfigureNetwork: buildah.NetworkDisabled, PullPolicy: buildah.PullNever,
		CommonBuildOpts: &buildah.CommonBuildOptions{}, Out: said, Err: said,
		OutputFormat: buildah.OCIv1ImageManifest, RemoveIntermediateCtrs: true, ForceRmIntermediateCtrs: true,
		Isolation: buildah.IsolationOCIRootless, NamespaceOptions: []buildah.NamespaceOption{{Name: "network", Host: false}},
	}})
	if err != nil {
		return "", err
	}
	return report.ID, nil
}

// excluded are the patterns of what is not sent to a build: those of the ignore
// file, which Podman reads only where it is given none, and ours. With none of
// ours it is left to Podman.
func excluded(b *libpod.Build) ([]string, error) {
	if len(b.Exclude) == 0 {
		return nil, nil
	}
	patterns, _, err := util.ParseDockerignore([]string{b.Containerfile}, b.ContextDir)
	if err != nil {
		return nil, err
	}
	literal := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)
	for _, name := range b.Exclude {
		patterns = append(patterns, literal.Replace(name))
	}
	return patterns, nil
}
