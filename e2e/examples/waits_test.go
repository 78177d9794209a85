package examples_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

const waitsPage = "api-docs/waits.md"

// The page's program asks by a link: who opens it changes nothing, who sends its form lets the job continue, once.
func (e *examples) approvalByLink(t *testing.T) {
	t.Parallel()
	dir, call := module(t, map[string]string{"main.go": block(t, waitsPage, "## An approval by link", "go", 0)})
	call("build", "-o", "refunds", ".")
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "refunds"))
	command.Env = e.environment()
	printed, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = command.Process.Kill(), command.Wait() }()
	c := e.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "refund", Queue: "refunds", Payload: []byte(`{"order":1234}`)})
	links := map[string]string{}
	for lines := bufio.NewScanner(printed); len(links) < 2 && lines.Scan(); {
		name, link, _ := strings.Cut(lines.Text(), " ")
		links[name] = link
	}
	stack.Eventually(t, time.Minute, "the job waits", func() bool { return stack.Get(t, c, id).State == api.StateWaiting })
	for range 3 {
		if page := e.page(t, http.MethodGet, links["approved"], nil); !strings.Contains(page, "Refund order 1234?") {
			t.Errorf("the page: %.300s", page)
		}
	}
	if got := stack.Get(t, c, id); got.State != api.StateWaiting {
		t.Errorf("who opened the link has sent it: %s", got.State)
	}
	e.page(t, http.MethodPost, links["approved"], url.Values{"comment": {"fine"}})
	if got := ends(t, c, id, api.StateCompleted, `{"refunded":1234,"comment":"fine"}`); got.WaitUntil != nil {
		t.Errorf("%+v", got)
	}
	rejected := stack.Submit(t, c, api.SubmitRequest{Type: "refund", Queue: "refunds", Payload: []byte(`{"order":7}`)})
	stack.Eventually(t, time.Minute, "it waits", func() bool { return stack.Get(t, c, rejected).State == api.StateWaiting })
	if _, err := c.Signal(t.Context(), rejected, api.SignalRequest{Name: "rejected"}); err != nil {
		t.Fatal(err)
	}
	ends(t, c, rejected, api.ReasonPermanent, "null")
}

// page opens a link as a browser does.
func (*examples) page(t *testing.T, method, link string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, link, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	browser := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // the console is not in the API's document
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %.300s", method, response.StatusCode, text)
	}
	return string(text)
}

// The page's agent waits for a call of its webhook, and its job of parts for all of them.
func (e *examples) agentAndParts(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "agents.py", block(t, waitsPage, "## An agent, and a job of parts", "python", 0))
	library, err := filepath.Abs(stack.Repository("api-docs", "examples", "python"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // for the number
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(listener.Addr().String(), ":")
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	worker := e.run(t, e.environment("PYTHONPATH="+library, "PYTHONDONTWRITEBYTECODE=1", "PORT="+port), "python3", file)
	c := e.Client(t)
	asks := stack.Submit(t, c, api.SubmitRequest{Type: "research", Queue: "agents", Payload: []byte(`{}`)})
	whole := stack.Submit(t, c, api.SubmitRequest{Type: "split", Queue: "agents", Payload: []byte(`{"numbers":[1,2,3,4,5]}`)})
	ends(t, c, whole, api.StateCompleted, `{"total":55}`)
	stack.Eventually(t, time.Minute, "the agent waits", func() bool { return stack.Get(t, c, asks).State == api.StateWaiting })
	status, text := stack.Call(t, http.MethodPost, "http://127.0.0.1:"+port+"/", "", []byte(`{"job":"`+asks+`","text":"42"}`))
	if status != http.StatusNoContent {
		t.Errorf("the webhook: %d %s", status, text)
	}
	ends(t, c, asks, api.StateCompleted, `{"answer":"42"}`)
	stops(t, worker)
}
