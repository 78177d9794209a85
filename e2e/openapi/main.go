// Command openapi writes api-docs/gateway.json and core.json, the OpenAPI 3
// documents of both services, from what stands beside their handlers:
//
//	handlers' comments ─▶ swag ─▶ Swagger 2.0 ─▶ kin-openapi ─▶ OpenAPI 3 ─▶ completed
//
// The comments have no more than the code cannot say: see annotator for core's, annotatePublic for the gateway's.
//
// What Swagger 2.0 cannot say is added here, and so is what is the same for all
// routes: who may call, problems with their codes, headers, limits of fields, what
// may be null. Run it with `make api-docs`; `.ci/run openapi` only compares.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// service is one document and where it comes from.
type service struct {
	name string
	// sources are the folders of its handlers; the first has the table of routes, and the document's own comment,
	// in openapi.go.
	sources []string
	// internal says that it is core's: envelopes, signed calls.
	internal bool
	// listens is its address where nothing is configured.
	listens string
}

func services() []service {
	return []service{
		{name: "gateway", sources: []string{"gateway/internal/httpapi", "gateway/internal/handlers"}, listens: "127.0.0.1:8080"},
		{name: "core", sources: []string{"core/internal/httpapi", "core/internal/operations", "core/internal/administration"}, internal: true, listens: "127.0.0.1:8081"},
	}
}

// wireFolders hold the types that travel.
func wireFolders() []string { return []string{"shared/api", "shared/server/hop", "shared/problem"} }

func main() {
	root := flag.String("root", ".", "the repository")
	swag := flag.String("swag", ".ci/tools/bin/swag", "the swag program")
	check := flag.Bool("check", false, "write nothing; fail where a document is not what it should be")
	flag.Parse()
	if err := run(context.Background(), *root, *swag, *check); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, root, swag string, check bool) error {
	var errs []error
	for _, s := range services() {
		raw, err := runSwag(ctx, root, swag, s)
		if err != nil {
			return err
		}
		text, samples, err := document(ctx, root, s, raw)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		// The gateway embeds both: its page has to work when core is away.
		for _, folder := range []string{"api-docs", "gateway/internal/docs"} {
			errs = append(errs, put(root, filepath.Join(folder, s.name+".json"), text, check))
		}
		if len(samples) > 0 {
			errs = append(errs, putSamples(root, samples, check))
		}
	}
	return errors.Join(errs...)
}

// putSamples writes the code samples.
func putSamples(root string, samples map[string][]codeSample, check bool) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(samples); err != nil {
		return err
	}
	return put(root, samplesFile, text.Bytes(), check)
}

// runSwag gives the Swagger 2.0 document of a service.
func runSwag(ctx context.Context, root, swag string, s service) ([]byte, error) {
	swag, err := filepath.Abs(swag)
	if err != nil {
		return nil, err
	}
	out, err := os.MkdirTemp("", "forgequeue-swag-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(out) }()
	annotated, err := os.MkdirTemp("", "forgequeue-handlers-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(annotated) }()
	copied := annotatePublic
	if s.internal {
		copied = annotate
	}
	sources, err := copied(root, s.sources, annotated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.sources[0], err)
	}
	folders := strings.Join(slices.Concat(sources, wireFolders()), ",")
	command := exec.CommandContext(ctx, swag, "init", "--quiet", "--parseInternal", "--parseFuncBody",
		"--generalInfo", "openapi.go", "--dir", folders, "--output", out, "--outputTypes", "json")
	command.Dir = root
	if said, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("swag, of %s: %w\n%s", s.name, err, said)
	}
	return os.ReadFile(filepath.Join(out, "swagger.json"))
}

// put writes a file, or compares it.
func put(root, name string, text []byte, check bool) error {
	path := filepath.Join(root, name)
	if !check {
		return os.WriteFile(path, text, 0o644)
	}
	if found, err := os.ReadFile(path); err != nil || !bytes.Equal(found, text) {
		return fmt.Errorf("%s is not what the code says: run make api-docs, and commit it", name)
	}
	return nil
}
