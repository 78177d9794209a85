package httpapi_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A gateway that reports is shown until it stops; a report that cannot be stored is refused.
func TestGatewaysReportThemselves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	report := hop.ProcessReport{ID: "g1", Address: "host:8080", Version: "v1", AgeMS: 5_000}
	one[struct{}](f, hop.ReportProcess.Path, operator(), report)
	found := one[api.Installation](f, hop.GetInstallation.Path, operator(), struct{}{})
	if len(found.Processes) != 1 || found.Processes[0].Kind != api.ProcessGateway || found.Processes[0].State != api.ProcessRunning {
		t.Fatalf("%+v", found.Processes)
	}
	report.Stops = true
	one[struct{}](f, hop.ReportProcess.Path, operator(), report)
	if found = one[api.Installation](f, hop.GetInstallation.Path, operator(), struct{}{}); len(found.Processes) != 0 {
		t.Errorf("stopped: %+v", found.Processes)
	}
	for _, wrong := range []hop.ProcessReport{
		{Address: "a", Version: "v"},
		{ID: "g", Address: "a\x00", Version: "v"},
		{ID: "g", Address: "a"},
		{ID: "g", Address: "a", Version: "v", AgeMS: -1},
		{ID: "g", Address: "a", Version: "v", AgeMS: 1 << 62},
	} {
		if p := refusal(f, hop.ReportProcess.Path, operator(), wrong); p.Code != problem.InvalidRequest {
			t.Errorf("%+v: %+v", wrong, p)
		}
	}
}
