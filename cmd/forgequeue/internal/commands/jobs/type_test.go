package jobs_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestTypes(t *testing.T) {
	f := commandtest.New(t)
	q, name := f.Queue(), "mail."+f.Queue()
	f.Want(0, []string{name, "version", "1", "Sends a mail.", `"queue":"` + q + `"`, `"required"`},
		"type", "set", name, "--payload-schema", `{"type":"object","required":["to"]}`, "--description", "Sends a mail.", "-q", q, "--priority", "7", "--example", `{"to":"x"}`)
	f.Want(1, []string{"schema_mismatch", "required"}, "submit", name, "--data", `{}`)
	id := f.Submitted(name, "--data", `{"to":"x"}`)
	if job := commandtest.Decode[api.Job](f, f.Must("jobs", "get", id, "-o", "json")); job.Queue != q || job.Priority != 7 {
		t.Errorf("%+v", job.JobSummary)
	}
	one := commandtest.Decode[api.JobType](f, f.Must("type", "set", name, "--result-schema", `{"required":["id"]}`, "--check-results", "--timeout", "2s", "--retry-base", "3s", "-o", "json"))
	if one.Version != 2 || !one.CheckResults || !api.HasSchema(one.PayloadSchema) || *one.Defaults.TimeoutMS != 2000 || *one.Defaults.Retry.BaseMS != 3000 || len(one.Examples) != 1 {
		t.Errorf("%+v", one)
	}
	f.Want(1, []string{"schema_mismatch", id}, "type", "set", name, "--payload-schema", `{"required":["from"]}`, "--example", `{"from":1}`)
	f.Want(0, []string{"version", "3"}, "type", "set", name, "--payload-schema", `{"required":["from"]}`, "--example", `{"from":1}`, "--force")
	f.Want(0, []string{name, "3", "payload, result"}, "type", "--limit", "0")
	f.Want(0, []string{name, "1", "2", "3"}, "type", "versions", name)
	f.Want(0, []string{"to"}, "type", "get", name, "--at-version", "1")
	f.Want(1, []string{"invalid_request", "payload_schema/type"}, "type", "set", name, "--payload-schema", `{"type":"x"}`)
	f.Want(2, []string{"--payload-schema"}, "type", "set", name, "--payload-schema", `{`)
	if reset := commandtest.Decode[api.JobType](f, f.Must("type", "set", name, "--reset", "-o", "json")); api.HasSchema(reset.PayloadSchema) || reset.CheckResults || reset.Defaults.Queue != nil {
		t.Errorf("%+v", reset)
	}
	f.Want(0, []string{"deleted"}, "type", "delete", name)
	f.Want(1, []string{"not_found"}, "type", "get", name)
}
