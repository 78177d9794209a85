//go:build unix

package localup_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
)

// upEnv makes the test binary a process that registers this data folder, says so, and runs until its input ends.
const upEnv = "LOCALUP_TEST_UP"

func TestMain(m *testing.M) {
	if data := os.Getenv(upEnv); data != "" {
		os.Exit(runUp(data))
	}
	os.Exit(m.Run())
}

func runUp(data string) int {
	unregister, err := localup.Register(data)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer unregister()
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return 0
}

// startUp starts such a process, and returns when it has registered. stop lets it end in order.
func startUp(t *testing.T, data string) (up *exec.Cmd, stop func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up = exec.CommandContext(t.Context(), self) // killed with the test
	up.Env = append(os.Environ(), upEnv+"="+data)
	up.Stderr = os.Stderr
	in, err := up.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return up, func() {
		_ = in.Close()
		if err := up.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// newData makes a data folder with credentials, and with a lock file that names a process that runs: this one, as if
// it had got the process id of an `up` that was killed.
func newData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"lock":                  strconv.Itoa(os.Getpid()) + "\n",
		localup.CredentialsFile: `{"gateway":"http://127.0.0.1:1","api_key":"fq_key","operator_key":"fq_operator","redis_url":"redis://r"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// find is Find without what runs on this machine beside the test.
func find(dirs ...string) (found []localup.Running) {
	for _, one := range localup.Find() {
		if slices.Contains(dirs, one.Data) {
			found = append(found, one)
		}
	}
	return found
}

// An `up` is found while its process runs: not after it was stopped, and not after it was killed, although its files
// are still there and another process has its id.
func TestAnUpIsFoundWhileItRuns(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := newData(t)
	if found := find(dir); len(found) > 0 {
		t.Fatalf("before any start: %+v", found)
	}
	want := localup.Running{Gateway: "http://127.0.0.1:1", APIKey: "fq_key", OperatorKey: "fq_operator", RedisURL: "redis://r", Data: dir}
	for _, killed := range []bool{true, false} {
		up, stop := startUp(t, dir)
		for range 2 { // to look changes nothing
			if found := find(dir); len(found) != 1 || found[0] != want {
				t.Fatalf("%+v, want %+v", found, want)
			}
		}
		if killed {
			_ = up.Process.Kill()
			_ = up.Wait()
		} else {
			stop()
		}
		if found := find(dir); len(found) > 0 {
			t.Fatalf("after its end (killed: %v): %+v", killed, found)
		}
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "forgequeue", "up", "*"))
	if err != nil || len(files) > 0 {
		t.Errorf("still registered: %q, %v", files, err)
	}
}

// A folder whose credentials say nothing, or that has gone, is not found, and does not hide another one.
func TestFoldersThatSayNothing(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	whole, gone := newData(t), filepath.Join(t.TempDir(), "gone")
	dirs := []string{whole, gone}
	for _, content := range []string{"", "{", `{"gateway":"http://127.0.0.1:1"}`, `{"api_key":"fq_key"}`} {
		dir := newData(t)
		if err := os.WriteFile(filepath.Join(dir, localup.CredentialsFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		unregister, err := localup.Register(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(unregister)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	if found := find(dirs...); len(found) != 1 || found[0].Data != whole {
		t.Errorf("%+v", found)
	}
	files, err := filepath.Glob(filepath.Join(os.Getenv("XDG_STATE_HOME"), "forgequeue", "up", "*"))
	if err != nil || len(files) != len(dirs)-1 {
		t.Errorf("%d registered, %v: that of the folder that has gone goes too", len(files), err)
	}
}

// The default folder needs no registration.
func TestDefaultData(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data/of/a/user")
	want := "/data/of/a/user/forgequeue"
	if os.Geteuid() == 0 {
		want = "/var/lib/forgequeue"
	}
	if got, err := localup.DefaultData(); got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
