package deploy_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

type workflow struct {
	Permissions *map[string]string `yaml:"permissions"`
	Concurrency any                `yaml:"concurrency"`
	Jobs        map[string]struct {
		Permissions map[string]string `yaml:"permissions"`
		Timeout     int               `yaml:"timeout-minutes"`
		RunsOn      string            `yaml:"runs-on"`
		If          string            `yaml:"if"`
		Needs       any               `yaml:"needs"`
		Uses        string            `yaml:"uses"`
		Steps       []struct {
			Uses string            `yaml:"uses"`
			Run  string            `yaml:"run"`
			With map[string]string `yaml:"with"`
		} `yaml:"steps"`
	} `yaml:"jobs"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top, ".github", "workflows", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	all := map[string]workflow{}
	for _, path := range paths {
		var w workflow
		name := filepath.Base(path)
		if err := yaml.Unmarshal([]byte(read(t, filepath.Join(".github", "workflows", name))), &w); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = w
	}
	return all
}

// A job may do nothing but what it says that it does; it ends; it uses no action
// that somebody could change under it.
func TestWorkflowsHaveLeastRights(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	for name, w := range workflows(t) {
		if w.Permissions == nil || len(*w.Permissions) > 0 {
			t.Errorf("%s: permissions must be {} at the top, and each job say its own", name)
		}
		if w.Concurrency == nil {
			t.Errorf("%s has no concurrency", name)
		}
		for id, job := range w.Jobs {
			own := strings.HasPrefix(job.Uses, "./.github/workflows/") // its jobs are looked at where they are
			if job.Uses != "" && !own {
				t.Errorf("%s, %s: calls %s", name, id, job.Uses)
			}
			if !own && (job.Timeout <= 0 || job.Timeout > 60) {
				t.Errorf("%s, %s: timeout-minutes %d", name, id, job.Timeout)
			}
			if len(job.Permissions) == 0 {
				t.Errorf("%s, %s says no permissions", name, id)
			}
			for right, level := range job.Permissions {
				if publishes := strings.Contains(job.If, "github.event_name != 'pull_request'"); level == "write" && !publishes {
					t.Errorf("%s, %s: may write %s for a pull request", name, id, right)
				}
			}
			for _, step := range job.Steps {
				if step.Uses != "" && !pinned.MatchString(step.Uses) {
					t.Errorf("%s, %s: %s is not pinned by its commit", name, id, step.Uses)
				}
				if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != "false" {
					t.Errorf("%s, %s: the checkout leaves its token behind", name, id)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s, %s: an expression within a script can be made a command; hand it on by env", name, id)
				}
			}
		}
	}
}

// Every step of .ci/run is in some job of ci.yml: a check that is added there, and
// forgotten here, would guard nobody's pull request.
func TestEveryStepIsInCI(t *testing.T) {
	t.Parallel()
	list := regexp.MustCompile(`(?m)^steps=\((.*)\)$`).FindStringSubmatch(read(t, filepath.Join(".ci", "run")))
	if list == nil {
		t.Fatal(".ci/run has no list of steps")
	}
	run := ""
	for _, job := range workflows(t)["ci.yml"].Jobs {
		for _, step := range job.Steps {
			run += " " + strings.ReplaceAll(step.Run, "\n", " ") + " "
		}
	}
	for step := range strings.FieldsSeq(list[1]) {
		if step == "install" { // each job installs what it needs
			continue
		}
		if !strings.Contains(run, " "+step+" ") {
			t.Errorf("no job of ci.yml runs the step %s", step)
		}
	}
}
