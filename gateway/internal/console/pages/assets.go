package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

//go:embed assets
var embedded embed.FS

// loaded are the files that pages name, by the names in templates.
var loaded = []string{"console.css", "console.js", "charts.js", "output.js", "icon.svg", "vendor/htmx.min.js", "vendor/uplot.min.js", "vendor/uplot.min.css"}

// asset is one file to be served.
type asset struct {
	media         string
	plain, packed []byte
}

// catalog is every asset by the name it is served by, which holds its hash, and those names.
type catalog struct {
	served map[string]asset
	names  map[string]string
}

// assets are read and packed once, at the first page.
var assets = sync.OnceValue(func() catalog {
	c := catalog{map[string]asset{}, map[string]string{}}
	for _, name := range loaded {
		plain, err := embedded.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // it is in the binary, or the binary does not build
		}
		hash := sha256.Sum256(plain)
		extension := path.Ext(name)
		served := strings.TrimSuffix(path.Base(name), extension) + "." + hex.EncodeToString(hash[:6]) + extension
		c.names[name] = served
		c.served[served] = asset{media(extension), plain, pack(plain)}
	}
	return c
})

func media(extension string) string {
	return map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
	}[extension]
}

func pack(plain []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // it writes to memory: it cannot fail
	}
	return packed.Bytes()
}

// assetPath is where a file is served, for as long as its content is the same.
func assetPath(name string) string {
	served, ok := assets().names[name]
	if !ok {
		panic("no asset " + name)
	}
	return "/console/assets/" + served
}

// ServeAsset answers GET /console/assets/{file}. A file's name changes with its content, so that it may be kept.
func ServeAsset(w http.ResponseWriter, r *http.Request) {
	file, ok := assets().served[r.PathValue("file")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "public, max-age=31536000, immutable")
	header.Set("Content-Type", file.media)
	header.Set("Vary", "Accept-Encoding")
	body := file.plain
	if request.TakesGzip(r.Header["Accept-Encoding"]) {
		header.Set("Content-Encoding", "gzip")
		body = file.packed
	}
	_, _ = w.Write(body) // if this fails the browser has left
}
