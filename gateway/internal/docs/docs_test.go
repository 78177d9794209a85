package docs_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/docs"
)

func serve(t *testing.T, name string, headers ...string) (*http.Response, []byte) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/docs/"+name, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	docs.Serve(recorder, request, name)
	response := recorder.Result()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, body
}

// Everything that the page names is here, and nothing in it is inline: its policy
// would not run it.
func TestThePageNamesOnlyFilesOfItsOwn(t *testing.T) {
	t.Parallel()
	_, page := serve(t, docs.Page)
	named := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllSubmatch(page, -1)
	if len(named) < 7 {
		t.Errorf("the page names %d files: %s", len(named), page)
	}
	for _, name := range named {
		file, ok := strings.CutPrefix(string(name[1]), "docs/")
		if !ok || !docs.Has(file) {
			t.Errorf("the page names %s, which is not here", name[1])
		}
	}
	if regexp.MustCompile(`<script>|<style|style=|onload=`).Match(page) {
		t.Errorf("something is inline: %s", page)
	}
}

func TestFilesAreServedPackedAndNot(t *testing.T) {
	t.Parallel()
	for name, media := range map[string]string{
		docs.Page: "text/html; charset=utf-8", docs.ProblemPage("not_found"): "text/html; charset=utf-8", "problem.css": "text/css; charset=utf-8",
		"page.js": "text/javascript; charset=utf-8", "page.css": "text/css; charset=utf-8",
		"gateway.json": "application/json", "core.json": "application/json", "samples.json": "application/json", "favicon-32x32.png": "image/png",
		"swagger-ui-bundle.js": "text/javascript; charset=utf-8", "swagger-ui-standalone-preset.js": "text/javascript; charset=utf-8",
		"swagger-ui.css": "text/css; charset=utf-8",
	} {
		response, plain := serve(t, name, "Accept-Encoding", "br, gzip;q=0")
		if response.StatusCode != 200 || len(plain) == 0 || response.Header.Get("Content-Type") != media || response.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d, %d bytes, %v", name, response.StatusCode, len(plain), response.Header)
		}
		for header, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Accept-Encoding", "X-Frame-Options": "DENY",
		} {
			if got := response.Header.Get(header); got != want {
				t.Errorf("%s: %s %q", name, header, got)
			}
		}
		policy := response.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", name, policy)
		}
		tag := response.Header.Get("ETag")
		for header, want := range map[string]int{tag: 304, strings.TrimPrefix(tag, "W/"): 304, `"x", ` + tag: 304, "*": 304, `"x` + tag + `"`: 200, `"x"`: 200} {
			if again, body := serve(t, name, "If-None-Match", header); again.StatusCode != want || (len(body) > 0) != (want == 200) {
				t.Errorf("%s: asked for again with %s: %d", name, header, again.StatusCode)
			}
		}
		if strings.HasPrefix(media, "image/") {
			continue
		}
		packed, body := serve(t, name, "Accept-Encoding", "gzip, br")
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil || packed.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: not packed: %v %v", name, err, packed.Header)
			continue
		}
		if unpacked, err := io.ReadAll(r); err != nil || !bytes.Equal(unpacked, plain) {
			t.Errorf("%s: packed it is another file: %v", name, err)
		}
	}
}

// The copies are those of api-docs, which people read.
func TestDocumentsAreThoseOfTheRepository(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gateway.json", "core.json"} {
		want, err := os.ReadFile("../../../api-docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := serve(t, name); !bytes.Equal(got, want) || !json.Valid(got) {
			t.Errorf("%s is not that of api-docs: make api-docs", name)
		}
	}
}
