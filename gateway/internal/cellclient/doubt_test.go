package cellclient_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// The first try of a keyed call is sent and its answer lost; the repeat comes to
// nothing. That does not make the first undone: nobody knows, and nobody may say
// that nothing was changed.
func TestDoubtOutlivesTheRepeat(t *testing.T) {
	t.Parallel()
	down := problem.New(problem.CoreUnavailable, "Nothing was changed.")
	whole, err := json.Marshal(down)
	if err != nil {
		t.Fatal(err)
	}
	item, err := json.Marshal(hop.Results[api.Whoami]{Results: []hop.Result[api.Whoami]{{Status: down.Status, Problem: down}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, answer := range map[string]string{
		"refused as a whole":  respond("503 Service Unavailable", problem.ContentType, whole),
		"refused as an item":  respond("200 OK", "application/json", item),
		"lost as well":        "",
		"no signature we had": respond("401 Unauthorized", problem.ContentType, []byte(`{"code":"unauthenticated"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, connections := failing(t, func(n int64, connection net.Conn) {
				readRequest(connection)
				if n > 1 {
					_, _ = connection.Write([]byte(answer))
				}
			})
			_, err := get(t.Context(), client(t, url, coretest.Secret), as(hop.SubmitJobs.Operation, hop.Keyed))
			if !errors.Is(err, cellclient.ErrOutcomeUnknown) || connections.Load() != 2 {
				t.Fatalf("%v after %d connections, want outcome unknown after 2", err, connections.Load())
			}
		})
	}
}

// The core that lost its answer is gone when the repeat comes.
func TestDoubtOutlivesARefusedConnection(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		readRequest(connection)
		_ = listener.Close() // before the answer is lost, or the repeat would be taken
		_ = connection.Close()
	}()
	_, err = get(t.Context(), client(t, "http://"+listener.Addr().String(), coretest.Secret), as(hop.SubmitJobs.Operation, hop.Keyed))
	<-done
	if !errors.Is(err, cellclient.ErrOutcomeUnknown) {
		t.Fatalf("%v, want outcome unknown", err)
	}
}

// A core restarts: the first try is lost with the old one, and where the repeat
// goes nobody listens yet. Once the new one does, the outcome gets its answer; a
// write that cannot be repeated stays in doubt, at once.
func TestARestartSettlesTheDoubt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		op   try
		want error
	}{
		{as(hop.ReportOutcomes.Operation, hop.Repeatable), nil},
		{as(hop.SubmitJobs.Operation, hop.Keyed), nil},
		{as(hop.SubmitJobs.Operation, hop.Writes), cellclient.ErrOutcomeUnknown},
		{as(hop.GetJob.Operation, hop.Reads), cellclient.ErrUnavailable},
	} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		done := make(chan struct{})
		go func() {
			defer close(done)
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			readRequest(connection)
			_ = listener.Close()
			_ = connection.Close()
			if test.want != nil {
				return
			}
			time.Sleep(300 * time.Millisecond) // as long as a start takes
			again, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer again.Close()
			if connection, err = again.Accept(); err == nil {
				readRequest(connection)
				_, _ = connection.Write([]byte(respond("200 OK", "application/json", []byte(`{"results":[{"status":200,"value":{}}]}`))))
				_ = connection.Close()
			}
		}()
		_, err = get(t.Context(), client(t, "http://"+address, coretest.Secret), test.op)
		<-done
		if !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", test.op, err, test.want)
		}
	}
}

func respond(status, contentType string, body []byte) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, contentType, len(body), body)
}
