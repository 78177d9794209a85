package stack

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/databasetest"
)

func migrate(tb testing.TB, settings map[string]string) {
	tb.Helper()
	service := newService(tb, settings, "core", "migrate")
	service.Start()
	if code := service.process.Wait(tb, time.Minute); code != 0 {
		tb.Fatalf("stack: migrate: exit code %d\n%s", code, service.process.Output())
	}
}

// migratedDatabase returns the URL of a database with all tables and no rows, which is the test's alone until
// it ends.
func migratedDatabase(tb testing.TB) string {
	tb.Helper()
	if OnCitus() {
		database := CitusSchema(tb, Citus(tb), true)
		migrate(tb, map[string]string{"DATABASE_URL": database, "FORGEQUEUE_LOG_LEVEL": "error"})
		return database
	}
	binary := Binary(tb)
	template := databasetest.Template{
		Name: databasetest.Folder(tb, "core", "internal", "store", "migrations"),
		Make: func(ctx context.Context, url string) error {
			command := exec.CommandContext(ctx, binary, "core", "migrate")
			command.Env = append(os.Environ(), "DATABASE_URL="+url, "FORGEQUEUE_LOG_LEVEL=error")
			command.Stderr = os.Stderr
			return command.Run()
		},
	}
	return template.Lease(tb)
}

// NewDatabase makes an empty database, dropped at the end.
func NewDatabase(tb testing.TB) string {
	tb.Helper()
	return databasetest.Empty(tb)
}
