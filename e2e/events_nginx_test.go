package e2e_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// nginxConf is a proxy as people write it: nginx buffers answers unless one says otherwise, and may compress them.
const nginxConf = `
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 64; }
http {
  access_log off;
  gzip %s; gzip_types *; gzip_proxied any; gzip_http_version 1.0;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen %s;
    location / { proxy_pass %s; }
  }
}
`

// A stream passes nginx as it stands, compressed or not: each change, and each chunk of output, arrives before the next one is made.
func TestEventsBehindNginx(t *testing.T) {
	t.Parallel()
	nginx := stack.Need(t, "nginx")
	for _, compressed := range []bool{false, true} {
		gzip := map[bool]string{false: "off", true: "on"}[compressed]
		t.Run("gzip "+gzip, func(t *testing.T) {
			t.Parallel()
			s := stack.Shared(t)
			address, dir := porttest.Address(t), t.TempDir()
			conf := fmt.Sprintf(nginxConf, gzip, address, s.Gateway)
			if os.Getuid() == 0 {
				conf = "user root;" + conf // its folder is the test's
			}
			if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
				t.Fatal(err)
			}
			stack.StartCommand(t, exec.CommandContext(t.Context(), nginx, "-p", dir, "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off; master_process off;"))
			c, queue := s.Client(t), "nginx-"+gzip
			id := stack.Submit(t, c, api.SubmitRequest{Type: "watched", Queue: queue})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/v1/jobs/"+id+"/events", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+s.APIKey)
			var answer *http.Response
			stack.Eventually(t, 20*time.Second, "nginx answers", func() bool {
				if answer, err = http.DefaultClient.Do(request); err != nil {
					return false
				}
				return true
			})
			defer func() { _ = answer.Body.Close() }()
			if kind := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(kind, "text/event-stream") {
				t.Fatalf("status %d, %s", answer.StatusCode, kind)
			}
			if answer.Uncompressed != compressed {
				t.Fatalf("compressed: %v", answer.Uncompressed)
			}
			lines := lineReader(bufio.NewScanner(answer.Body))
			await(t, lines, "job", api.StateQueued)
			job := stack.ClaimOne(t, c, "w1", queue)
			await(t, lines, "job", api.StateRunning)
			for i := range 3 {
				said := fmt.Sprint("chunk ", i)
				if _, err := c.AppendOutput(t.Context(), id, api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: []api.OutputChunk{{Seq: int64(i + 1), Stream: api.OutputOut, Text: said}}}); err != nil {
					t.Fatal(err)
				}
				awaitOutput(t, lines, said)
			}
			if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
				t.Fatal(err)
			}
			await(t, lines, "end", api.StateCompleted)
		})
	}
}
