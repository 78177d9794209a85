package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// samplesFile has the code samples of the public operations by their ids, for the page of the gateway. In the document
// itself they would only make it longer for generators.
const samplesFile = "gateway/internal/docs/samples.json"

// codeSample is how to make a call in one language.
type codeSample struct {
	Lang   string `json:"lang"`
	Label  string `json:"label"`
	Source string `json:"source"`
}

// sampled is an operation with code samples: the body that they send, by its title, a query, and the call of the
// Go client, whose first result is printed.
type sampled struct {
	example, query string
	call           string
}

// sampledOperations are the eleven that people use first.
func sampledOperations() map[string]sampled {
	return map[string]sampled{
		"submitJob": {example: "basic", call: `c.Submit(ctx, api.SubmitRequest{
		Type: "hash.sha256", Payload: []byte(` + "`" + `{"text": "hello"}` + "`" + `),
	})`},
		"getJob":    {call: `c.Get(ctx, "` + exampleJob + `")`},
		"listJobs":  {query: "?queue=default&state=queued", call: `c.List(ctx, api.JobFilter{Queue: "default", States: []string{api.StateQueued}}, client.PageRequest{})`},
		"patchJob":  {example: "priority", call: `c.PatchJob(ctx, "` + exampleJob + `", api.JobPatch{Priority: new(9)})`},
		"cancelJob": {call: `c.Cancel(ctx, "` + exampleJob + `")`},
		"claimJobs": {example: "one", call: `c.Claim(ctx, api.ClaimRequest{WorkerID: "worker-1", Queues: []string{"default"}})`},
		"sendHeartbeat": {example: "lease", call: `c.Heartbeat(ctx, "worker-1", []api.Lease{
		{JobID: "` + exampleJob + `", LeaseToken: "LEASE_TOKEN"},
	})`},
		"completeJob": {example: "result", call: `c.Complete(ctx, "` + exampleJob + `", api.CompleteRequest{
		LeaseToken: "LEASE_TOKEN", Result: []byte(` + "`" + `{"sha256": "2cf24dba5fb0a30e"}` + "`" + `),
	})`},
		"failJob": {example: "permanent", call: `c.Fail(ctx, "` + exampleJob + `", api.FailRequest{
		LeaseToken: "LEASE_TOKEN", Permanent: true, Error: &api.JobError{Type: "bad_address", Message: "no such mailbox"},
	})`},
		"putQueue": {example: "basic", call: `c.PutQueue(ctx, "default", api.QueueRequest{
		VisibilityTimeoutMS: new(int64(60_000)), MaxAttempts: new(5), MaxRunning: new(int64(20)),
	})`},
		"redriveDeadLetters": {example: "ids", call: `c.RedriveDeadLetters(ctx, []string{"` + exampleJob + `"})`},
	}
}

// addSamples gives an operation its code samples, where it has some.
func (c *completer) addSamples(path, method string, op *openapi3.Operation) error {
	one, ok := sampledOperations()[op.OperationID]
	if !ok || c.service.internal {
		return nil
	}
	for _, p := range op.Parameters {
		if p.Value != nil && p.Value.In == "path" {
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", fmt.Sprint(p.Value.Example))
		}
	}
	var body json.RawMessage
	if one.example != "" {
		example := op.RequestBody.Value.Content[jsonMedia].Examples[one.example]
		if example == nil {
			return fmt.Errorf("its code samples send the example %q, which there is none of", one.example)
		}
		var err error
		if body, err = ordered(example.Value.Value); err != nil {
			return err
		}
	}
	path += one.query
	c.samples[op.OperationID] = []codeSample{
		{"Shell", "curl", curlSample(method, path, body)},
		{"Go", "Go", goSample(one.call)},
		{"Python", "Python", pythonSample(method, path, body)},
		{"JavaScript", "JavaScript", javaScriptSample(method, path, body)},
	}
	return nil
}

// indented is JSON over several lines, of which all but the first begin with prefix.
func indented(body json.RawMessage, prefix string) string {
	var b bytes.Buffer
	_ = json.Indent(&b, body, prefix, "  ") // it was written as JSON
	return b.String()
}

func curlSample(method, path string, body json.RawMessage) string {
	var b strings.Builder
	b.WriteString("curl")
	if method != "GET" && (method != "POST" || body == nil) {
		b.WriteString(" -X " + method)
	}
	fmt.Fprintf(&b, " \"$FORGEQUEUE_URL%s\" \\\n  -H \"Authorization: Bearer $FORGEQUEUE_API_KEY\"", path)
	if body != nil {
		fmt.Fprintf(&b, " \\\n  -H \"Content-Type: application/json\" \\\n  -d '%s'", strings.ReplaceAll(indented(body, "  "), "'", `'\''`))
	}
	return b.String() + "\n"
}

func goSample(call string) string {
	packages := []string{`"context"`, `"encoding/json"`, `"log"`, `"os"`, "", `"github.com/forgequeue/forgequeue/shared/api"`, `"github.com/forgequeue/forgequeue/shared/client"`}
	if !strings.Contains(call, "api.") {
		packages = slices.DeleteFunc(packages, func(name string) bool { return strings.HasSuffix(name, `/api"`) })
	}
	return strings.ReplaceAll(`package main

import (
	`+strings.ReplaceAll(strings.Join(packages, "\n\t"), "\t\n", "\n")+`
)

func main() {
	ctx := context.Background()
	c, err := client.FromEnv() // FORGEQUEUE_URL and FORGEQUEUE_API_KEY
	if err != nil {
		log.Fatal(err)
	}
	answer, err := CALL
	if err != nil {
		log.Fatal(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(answer)
}
`, "CALL", call)
}

func pythonSample(method, path string, body json.RawMessage) string {
	var b strings.Builder
	b.WriteString("import json, os, urllib.request\n\nrequest = urllib.request.Request(\n")
	fmt.Fprintf(&b, "    os.environ[\"FORGEQUEUE_URL\"] + %q,\n    method=%q,\n", path, method)
	b.WriteString("    headers={\n        \"Authorization\": \"Bearer \" + os.environ[\"FORGEQUEUE_API_KEY\"],\n")
	if body != nil {
		b.WriteString("        \"Content-Type\": \"application/json\",\n")
	}
	b.WriteString("    },\n")
	if body != nil {
		fmt.Fprintf(&b, "    data=json.dumps(%s).encode(),\n", python(indented(body, "    ")))
	}
	b.WriteString(")\nwith urllib.request.urlopen(request) as response:\n    print(json.load(response))\n")
	return b.String()
}

// python writes JSON as Python's literals.
func python(body string) string {
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	var b strings.Builder
	last := int64(0)
	for {
		token, err := decoder.Token()
		if err != nil { // the end
			break
		}
		text := body[last:decoder.InputOffset()]
		last = decoder.InputOffset()
		switch token {
		case true:
			text = strings.Replace(text, "true", "True", 1)
		case false:
			text = strings.Replace(text, "false", "False", 1)
		case nil:
			text = strings.Replace(text, "null", "None", 1)
		}
		b.WriteString(text)
	}
	return b.String()
}

func javaScriptSample(method, path string, body json.RawMessage) string {
	var b strings.Builder
	fmt.Fprintf(&b, "const response = await fetch(process.env.FORGEQUEUE_URL + %q, {\n  method: %q,\n", path, method)
	b.WriteString("  headers: {\n    Authorization: `Bearer ${process.env.FORGEQUEUE_API_KEY}`,\n")
	if body != nil {
		b.WriteString("    \"Content-Type\": \"application/json\",\n")
	}
	b.WriteString("  },\n")
	if body != nil {
		fmt.Fprintf(&b, "  body: JSON.stringify(%s),\n", indented(body, "  "))
	}
	b.WriteString("});\nconsole.log(response.status, await response.json());\n")
	return b.String()
}
