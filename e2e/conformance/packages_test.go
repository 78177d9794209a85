package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// packageFolder is the absolute path of a client's package.
func packageFolder(t *testing.T, language string) string {
	t.Helper()
	path, err := filepath.Abs(stack.Repository("api-docs", "examples", language))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func output(t *testing.T, dir, program string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "npm_config_update_notifier=false", "npm_config_offline=true", "npm_config_cache="+t.TempDir())
	var stderr bytes.Buffer
	command.Stderr = &stderr
	text, err := command.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(program), args, err, text, stderr.Bytes())
	}
	return text
}

// compiler gives the TypeScript compiler that .ci/run tools installs; without it the test is skipped.
func compiler(t *testing.T) (program string, args []string) {
	t.Helper()
	node := stack.Need(t, "node")
	path, err := filepath.Abs(stack.Repository(".ci", "tools", "typescript", "node_modules", "typescript", "bin", "tsc"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("GITHUB_ACTIONS") != "" {
			t.Fatal("CI needs the TypeScript compiler: .ci/run tools")
		}
		t.Skip("the TypeScript compiler is not installed: npm ci --prefix .ci/tools/typescript")
	}
	return node, []string{path}
}

// The JavaScript and the declarations are what the compiler makes of the source.
func TestTypeScriptBuild(t *testing.T) {
	t.Parallel()
	program, args := compiler(t)
	folder, made := packageFolder(t, "typescript"), t.TempDir()
	output(t, folder, program, append(args, "--project", folder, "--outDir", made)...)
	for _, name := range []string{"forgequeue.js", "forgequeue.d.ts"} {
		want, err := os.ReadFile(filepath.Join(made, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date, %v: make clients", name, err)
		}
	}
}

// A program of a user is checked by the declarations: the README's compiles, and one with wrong types does not.
func TestTypeScriptTypes(t *testing.T) {
	t.Parallel()
	program, args := compiler(t)
	dir := t.TempDir()
	installed := filepath.Join(dir, "node_modules", "forgequeue")
	if err := os.MkdirAll(installed, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "forgequeue.d.ts", "forgequeue.js"} {
		text, err := os.ReadFile(filepath.Join(packageFolder(t, "typescript"), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(installed, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, sources ...string) (string, error) {
		compile := append(slices.Clone(args), "--noEmit", "--strict", "--pretty", "false", "--lib", "es2022,dom,dom.iterable", "--target", "es2022", "--module", "nodenext")
		for i, source := range sources {
			file := fmt.Sprint(name, i, ".mts")
			if err := os.WriteFile(filepath.Join(dir, file), []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			compile = append(compile, file)
		}
		command := exec.CommandContext(t.Context(), program, compile...)
		command.Dir = dir
		text, err := command.CombinedOutput()
		return string(text), err
	}
	if text, err := check("readme", codeBlocks(t, filepath.Join(packageFolder(t, "typescript"), "README.md"), "ts")...); err != nil {
		t.Errorf("the README: %v\n%s", err, text)
	}
	var wrong []string
	for _, line := range []string{
		`new Client({ url: 'http://127.0.0.1:8080' });`,
		`await client.submit({ queue: 'mail' });`,
		`await client.list({ states: ['done'] });`,
		`export const n: number = (await client.get<string>('id')).result ?? 0;`,
		`new Worker({ client }).handle('t', (job: RunningJob<{ name: string }>) => job.payload.nam);`,
	} {
		wrong = append(wrong, "import { Client, Worker, type RunningJob } from 'forgequeue';\nconst client = await Client.fromEnv();\n"+line)
	}
	text, _ := check("wrong", wrong...)
	for i, source := range wrong {
		if !strings.Contains(text, fmt.Sprintf("wrong%d.mts(3,", i)) || strings.Count(text, fmt.Sprintf("wrong%d.mts(", i)) != 1 {
			t.Errorf("%s\nhas not just the error of its last line: %s", source, text)
		}
	}
}

// codeBlocks gives the fenced blocks of a language.
func codeBlocks(t *testing.T, path, language string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		blocks = append(blocks, block+"\n")
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no code in %s", path, language)
	}
	return blocks
}

// The npm package has the files that it needs, and no others.
func TestTypeScriptPackage(t *testing.T) {
	t.Parallel()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed") // Debian's nodejs comes without it
	}
	var packed []struct {
		Name, Version string
		Files         []struct{ Path string }
	}
	text := output(t, packageFolder(t, "typescript"), npm, "pack", "--dry-run", "--json", "--ignore-scripts")
	if err := json.Unmarshal(text, &packed); err != nil || len(packed) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	var files []string
	for _, file := range packed[0].Files {
		files = append(files, file.Path)
	}
	slices.Sort(files)
	if want := []string{"LICENSE", "README.md", "forgequeue.d.ts", "forgequeue.js", "forgequeue.ts", "package.json"}; !slices.Equal(files, want) || packed[0].Name != "forgequeue" {
		t.Errorf("%s has %v, want %v", packed[0].Name, files, want)
	}
}

// The Python module is of Python 3.9, its README compiles, and all that is public has types.
func TestPythonModule(t *testing.T) {
	t.Parallel()
	python := stack.Need(t, "python3")
	folder := packageFolder(t, "python")
	script := `
import ast, inspect, sys
source = open("forgequeue/__init__.py", encoding="utf-8").read()
ast.parse(source, feature_version=(3, 9))
for block in sys.argv[1:]:
    compile(block, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
sys.path.insert(0, ".")
import forgequeue
untyped = []
def look(name, function):
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.name not in ("self", "cls") and parameter.annotation is parameter.empty:
            untyped.append(f"{name}({parameter.name})")
    if signature.return_annotation is signature.empty:
        untyped.append(name)
for name in forgequeue.__all__:
    public = getattr(forgequeue, name)
    if inspect.isfunction(public):
        look(name, public)
    if inspect.isclass(public):
        for member, function in vars(public).items():
            if isinstance(function, classmethod):
                function = function.__func__
            if inspect.isfunction(function):
                look(f"{name}.{member}", function)
assert not untyped, untyped
missing = [m for m in vars(forgequeue.AsyncClient) if not m.startswith("_") and not hasattr(forgequeue.Client, m) and m != "sync"]
assert not missing, missing
`
	output(t, folder, python, append([]string{"-c", script}, codeBlocks(t, filepath.Join(folder, "README.md"), "python")...)...)
	if mypy, err := exec.LookPath("mypy"); err == nil {
		output(t, t.TempDir(), mypy, "--strict", "--cache-dir", t.TempDir(), filepath.Join(folder, "forgequeue"))
	}
}

// A call that its program ends closes its connection, and so does not go on in the server.
func TestCallsAreEnded(t *testing.T) {
	t.Parallel()
	for language, command := range map[string][]string{
		"typescript": {"node", "--input-type=module", "--eval", `
import { pathToFileURL } from 'node:url';
const { Client } = await import(pathToFileURL('forgequeue.js').href);
const stop = new AbortController();
process.stdin.once('data', () => stop.abort(new Error('enough')));
const client = new Client({ url: process.env.URL, apiKey: 'key' });
await client.get('id', { signal: stop.signal }).then(() => process.exit(2), (error) => { if (error.message !== 'enough') throw error; });
process.stdin.once('end', () => process.exit(0)).resume();`},
		"python": {"python3", "-c", `
import asyncio, os, sys
sys.path.insert(0, ".")
import forgequeue

async def main():
    async with forgequeue.AsyncClient(forgequeue.Client(os.environ["URL"], "key")) as client:
        call = asyncio.ensure_future(client.get("id"))
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)

asyncio.run(main())`},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			program := stack.Need(t, command[0])
			came, gone := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(came)
				<-r.Context().Done()
				close(gone)
			}))
			defer server.Close()
			process := exec.CommandContext(context.WithoutCancel(t.Context()), program, command[1:]...)
			process.Dir, process.Env = packageFolder(t, language), append(os.Environ(), "URL="+server.URL, "PYTHONDONTWRITEBYTECODE=1")
			input, err := process.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			running := stack.StartCommand(t, process)
			await := func(what string, happened <-chan struct{}) {
				t.Helper()
				select {
				case <-happened:
				case <-time.After(stack.Patience(time.Minute)):
					t.Fatalf("not seen: %s\n%s", what, running.Output())
				}
			}
			await("the call", came)
			if _, err := input.Write([]byte("stop\n")); err != nil {
				t.Fatal(err)
			}
			await("its end", gone)
			_ = input.Close()
			if code := running.Wait(t, time.Minute); code != 0 {
				t.Errorf("the program ended with %d: %s", code, running.Output())
			}
		})
	}
}

// The versions that the packages name in two places agree, and each package has the licence of the project.
func TestPackagesAgree(t *testing.T) {
	t.Parallel()
	read := func(path ...string) string {
		text, err := os.ReadFile(stack.Repository(path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	module, project := read("api-docs", "examples", "python", "forgequeue", "__init__.py"), read("api-docs", "examples", "python", "pyproject.toml")
	_, version, _ := strings.Cut(module, "__version__ = ")
	version, _, _ = strings.Cut(version, "\n")
	if !strings.Contains(project, "\nversion = "+version+"\n") {
		t.Errorf("pyproject.toml has another version than forgequeue/__init__.py, %s", version)
	}
	for _, language := range []string{"typescript", "python"} {
		if read("api-docs", "examples", language, "LICENSE") != read("LICENSE") {
			t.Errorf("the licence of %s is another one", language)
		}
	}
}
