package administration_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A gateway that reports is shown until it stops; a report that cannot be stored is refused.
func TestGatewaysReportThemselves(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	report := hop.ProcessReport{ID: "g1", Address: "host:8080", Version: "v1", AgeMS: 5_000}
	calltest.One[struct{}](f, hop.ReportProcess.Path, calltest.Operator(), report)
	found := calltest.One[api.Installation](f, hop.GetInstallation.Path, calltest.Operator(), struct{}{})
	if len(found.Processes) != 1 || found.Processes[0].Kind != api.ProcessGateway || found.Processes[0].State != api.ProcessRunning {
		t.Fatalf("%+v", found.Processes)
	}
	report.Stops = true
	calltest.One[struct{}](f, hop.ReportProcess.Path, calltest.Operator(), report)
	if found = calltest.One[api.Installation](f, hop.GetInstallation.Path, calltest.Operator(), struct{}{}); len(found.Processes) != 0 {
		t.Errorf("stopped: %+v", found.Processes)
	}
	for _, wrong := range []hop.ProcessReport{
		{Address: "a", Version: "v"},
		{ID: "g", Address: "a\x00", Version: "v"},
		{ID: "g", Address: "a"},
		{ID: "g", Address: "a", Version: "v", AgeMS: -1},
		{ID: "g", Address: "a", Version: "v", AgeMS: 1 << 62},
	} {
		if p := calltest.Refusal(f, hop.ReportProcess.Path, calltest.Operator(), wrong); p.Code != problem.InvalidRequest {
			t.Errorf("%+v: %+v", wrong, p)
		}
	}
}
