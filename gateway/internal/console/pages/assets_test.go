package pages_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/pages"
)

// vendored are the files of other projects, as their packages on npm have them: htmx.org 4.0.1 (0BSD) and uplot 1.6.32
// (MIT). A file that is changed, or a new one, has to be looked at and noted here.
var vendored = map[string]string{
	"htmx.LICENSE":  "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
	"htmx.min.js":   "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
	"uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	"uplot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	"uplot.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}

func TestVendoredFilesAreThoseOfTheirPackages(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("assets/vendor")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != len(vendored) {
		t.Errorf("%d files, want %d", len(entries), len(vendored))
	}
	for _, entry := range entries {
		text, err := os.ReadFile("assets/vendor/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		hash := sha256.Sum256(text)
		if got := hex.EncodeToString(hash[:]); got != vendored[entry.Name()] {
			t.Errorf("%s has the SHA-256 %s, want %q", entry.Name(), got, vendored[entry.Name()])
		}
	}
}

// eachTemplate hands on the text of each.
func eachTemplate(t *testing.T, look func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir("templates", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		look(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a template writes inline the policy would not run.
func TestTemplatesHaveNothingInline(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`)
	eachTemplate(t, func(path, text string) {
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	})
}

// A touch screen shows no titles: what a button does is text of the page, which the button names.
func TestButtonsExplainThemselvesInText(t *testing.T) {
	t.Parallel()
	titled, described := regexp.MustCompile(`<button[^>]* title=`), regexp.MustCompile(`aria-describedby="([^"]+)"`)
	eachTemplate(t, func(path, text string) {
		if found := titled.FindString(text); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		for _, id := range described.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(text, `id="`+id[1]+`"`) {
				t.Errorf("%s: nothing has the id %s", path, id[1])
			}
		}
	})
}

func TestAssetsAreKeptByTheirNames(t *testing.T) {
	t.Parallel()
	page, err := pages.Render(pages.Frame{Template: "enter", Title: "x", Now: time.Now(), Data: struct {
		Token, Tenant, KeyID string
		Other, Alone         bool
	}{Token: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`"/console/assets/([^"]*)"`).FindAllSubmatch(page, -1)
	if len(named) < 6 {
		t.Fatalf("the page names %d files", len(named))
	}
	for _, name := range named {
		for _, encoding := range []string{"", "gzip"} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.SetPathValue("file", string(name[1]))
			r.Header.Set("Accept-Encoding", encoding)
			w := httptest.NewRecorder()
			pages.ServeAsset(w, r)
			if w.Code != http.StatusOK || w.Body.Len() == 0 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Content-Encoding") != encoding {
				t.Errorf("%s: %d, %d bytes, %v", name[1], w.Code, w.Body.Len(), w.Header())
			}
		}
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetPathValue("file", "../render.go")
	if pages.ServeAsset(w, r); w.Code != http.StatusNotFound {
		t.Error(w.Code)
	}
}
