package request_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip": true, "gzip;q=0": false, "gzip;q=0.0": false, "gzip; q=0.000": false, "gzip;q=0.001": true,
		"gzip ; Q=0.5": true, "br": false, "*": true, "*;q=0": false, "*;q=0, gzip": true, "gzip;q=0, *": false, "identity": false, "x-gzip": true, "gzip;q=x": false, "gzipped": false,
	} {
		if got := request.TakesGzip([]string{header}); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
	if request.TakesGzip(nil) || !request.TakesGzip([]string{"br", "gzip"}) {
		t.Error("several headers, or none")
	}
}
