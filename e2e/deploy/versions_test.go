package deploy_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/build"
)

// Every file that names the version names the same one: that of package build.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	clients := filepath.Join("api-docs", "examples")
	for path, pattern := range map[string]string{
		filepath.Join(clients, "python", "pyproject.toml"):            `(?m)^version = "(.*)"$`,
		filepath.Join(clients, "python", "forgequeue", "__init__.py"): `(?m)^__version__ = "(.*)"$`,
		filepath.Join(clients, "python", "README.md"):                 `pip install \./forgequeue-(.*)-py3-none-any\.whl`,
		filepath.Join(clients, "typescript", "package.json"):          `(?m)^  "version": "(.*)",$`,
		filepath.Join(clients, "typescript", "README.md"):             `npm install \./forgequeue-npm-(.*)\.tgz`,
		"CHANGELOG.md":                            `(?m)^## (\d\S*) – \d{4}-\d\d-\d\d$`, // the first one
		"README.md":                               `(?m)^\*Status: (.*?)\*`,
		"./README.md":                             `cmd/forgequeue@v(\S+)`,
		"././README.md":                           `forgequeue-chart-(.*)\.tgz`,
		filepath.Join(manifests, "README.md"):     `forgequeue/core:([\d.]+)`,
		filepath.Join("api-docs", "deploy.md"):    `FORGEQUEUE_VERSION=([\d.]+)`,
		filepath.Join(chart, "Chart.yaml"):        `(?m)^version: (.*)$`,
		chart + "/./Chart.yaml":                   `(?m)^appVersion: (.*)$`,
		filepath.Join("api-docs", "gateway.json"): `(?s)"info": ?\{.*?"version": ?"(.*?)"`,
		filepath.Join("api-docs", "core.json"):    `(?s)"info": ?\{.*?"version": ?"(.*?)"`,
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, path))
		if found == nil || found[1] != build.Release {
			t.Errorf("%s: %s finds %q, and the version is %s", path, pattern, found, build.Release)
		}
	}
}
