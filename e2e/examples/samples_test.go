package examples_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The code samples of the documentation: those in curl, Python and JavaScript make their call to a running stack
// and get an answer that is no refusal; those in Go compile.
func TestCodeSamplesWork(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	document, err := contract.Load("gateway")
	if err != nil {
		t.Fatal(err)
	}
	e := &documented{t: t, cluster: c, tenant: c.NewTenant(t, "samples"), document: document}
	e.client = c.Client(t, e.tenant.Key)
	stack.Submit(t, e.client, api.SubmitRequest{Type: "x"}) // now there is a queue "default"
	programs, operations, all := map[string]string{}, 0, allSamples(t)
	for _, path := range document.Paths.Keys() {
		for _, op := range document.Paths.Value(path).Operations() {
			samples := all[op.OperationID]
			if samples == nil {
				continue
			}
			operations++
			for _, label := range []string{"curl", "Go", "Python", "JavaScript"} {
				if samples[label] == "" {
					t.Errorf("%s has no sample in %s", op.OperationID, label)
				}
			}
			programs[op.OperationID+"/main.go"] = samples["Go"]
			e.runSample(t, op, samples, "curl", "sh", "-c")
			e.runSample(t, op, samples, "Python", "python3", "-c")
			e.runSample(t, op, samples, "JavaScript", "node", "--input-type=module", "-e")
		}
	}
	if operations != 11 {
		t.Errorf("%d operations have samples, want 11", operations)
	}
	_, call := module(t, programs)
	call("mod", "tidy")
	call("vet", "./...")
}

// allSamples are those of the page, by operation and label.
func allSamples(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile(stack.Repository("gateway", "internal", "docs", "samples.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]struct{ Label, Source string }
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	byLabel := map[string]map[string]string{}
	for id, samples := range all {
		byLabel[id] = map[string]string{}
		for _, one := range samples {
			byLabel[id][one.Label] = one.Source
		}
	}
	return byLabel
}

// runSample makes the call of a sample, with real ids in the places of those shown.
func (e *documented) runSample(t *testing.T, op *openapi3.Operation, samples map[string]string, label string, program ...string) {
	t.Helper()
	t.Run(op.OperationID+" "+label, func(t *testing.T) {
		source := e.values(t, op).Replace(samples[label])
		if label == "curl" {
			source = strings.Replace(source, "curl", "curl -sS --fail-with-body", 1)
		}
		command := exec.CommandContext(t.Context(), stack.Need(t, program[0]), append(program[1:], source)...)
		command.Env = append(os.Environ(), "FORGEQUEUE_URL="+e.cluster.Gateways[0].URL, "FORGEQUEUE_API_KEY="+e.tenant.Key)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v: %s", source, err, output)
		}
		if label == "JavaScript" && !strings.HasPrefix(string(output), "20") {
			t.Errorf("%s\n%s", source, output)
		}
	})
}
