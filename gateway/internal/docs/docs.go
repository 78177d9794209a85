// Package docs serves the API documents, Swagger UI and the pages of problem codes, all of it from the binary:
// nothing is asked of core, or of anybody outside.
package docs

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"sync"

	"github.com/swaggest/swgui/v5/static"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

// The documents are copies of api-docs/*.json: `make api-docs` writes both, with the code samples of the page, and CI
// compares.
//
//go:embed gateway.json core.json samples.json index.html page.js page.css problem.html problem.css
var own embed.FS

// Page is the name of the page itself.
const Page = "index.html"

// policy lets the page load its own files, and call its own origin; images may
// stand in a style sheet. Nothing inline runs or styles.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// file is one thing to be served.
type file struct {
	media string
	etag  string
	// packed is by gzip; nil for what would not shrink.
	packed []byte
	plain  []byte
	// cache says how long it may be kept without asking.
	cache string
}

// files are read and packed once, at the first request: most gateways serve none.
var files = sync.OnceValue(load)

func load() map[string]file {
	all := map[string]file{}
	for _, name := range []string{Page, "page.js", "page.css", "problem.css", "gateway.json", "core.json", "samples.json"} {
		plain := read(own, name)
		// Asked for each time: a page and its document belong together.
		all[name] = newFile(name, plain, pack(plain), "no-cache")
	}
	for name, plain := range problemPages() {
		all[name] = newFile(name, plain, pack(plain), "no-cache")
	}
	for _, name := range []string{"swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "swagger-ui.css"} {
		all[name] = newFile(name, nil, read(static.FS, name+".gz"), assetCache)
	}
	const icon = "favicon-32x32.png"
	all[icon] = newFile(icon, read(static.FS, icon), nil, assetCache)
	return all
}

const assetCache = "public, max-age=86400"

func read(from embed.FS, name string) []byte {
	text, err := from.ReadFile(name)
	if err != nil {
		panic(err) // it is in the binary, or the binary does not build
	}
	return text
}

func newFile(name string, plain, packed []byte, cache string) file {
	media := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".json": "application/json", ".png": "image/png",
	}[path.Ext(name)]
	sum := sha256.Sum256(append(slices.Clip(packed), plain...))
	// Weak: packed and not it is the same file.
	return file{media, `W/"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, packed, plain, cache}
}

func pack(plain []byte) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(plain) // into memory: it cannot fail
	_ = w.Close()
	return packed.Bytes()
}

// Has says whether there is a file of this name.
func Has(name string) bool {
	_, ok := files()[name]
	return ok
}

// Serve answers with a file, which must be there.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	f := files()[name]
	header := w.Header()
	header.Set("Cache-Control", f.cache)
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("ETag", f.etag)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept-Encoding")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if request.NoneMatch(r.Header["If-None-Match"], f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", f.media)
	body := f.plain
	if f.packed != nil {
		if request.TakesGzip(r.Header["Accept-Encoding"]) {
			header.Set("Content-Encoding", "gzip")
			body = f.packed
		} else if body == nil {
			body = unpack(f.packed)
		}
	}
	header.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // if this fails the caller has gone
}

// unpack is for the rare client that does not take gzip.
func unpack(packed []byte) []byte {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil // it is embedded, and a test reads it
	}
	plain, _ := io.ReadAll(r)
	return plain
}

// Gateway is the API's document.
func Gateway() []byte { return read(own, "gateway.json") }
