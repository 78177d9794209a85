package move_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/move"
)

// Statements that write rows of tenants and do not ask tenant_fences themselves, by the reason why they need not. A name is
// PACKAGE.NAME of the constant, variable or function that has the text.
var asksNot = map[string][]string{ //nolint:gochecknoglobals // a constant in all but the keyword
	"an earlier statement of the transaction asks for the tenants that the caller names (InTenantTx, QueueServed, QueueTakesJobs, audit.Recorded)": {
		"deadletter.discardSQL", "deadletter.createRedriveSQL", "deadletter.cancelRedriveSQL", "deadletter.chooseSampleSQL", "deadletter.dropSampleSQL",
		"deadletter.redriveSQL", "deadletter.resolveDeadSQL", "deadletter.renewEdgesSQL", "deadletter.blockAgainSQL",
		"jobs.requestCancelSQL", "jobs.requestCancelsSQL", "ended.deleteFinishedSQL", "ended.deleteDeadSQL", "ended.deleteAttemptsSQL", "ended.deleteOutputSQL", "ended.deleteEdgesSQL",
		"jobtypes.insertSQL", "jobtypes.supersedeSQL", "jobtypes.dropVersionsSQL", "jobtypes.deleteSQL", "jobtypes.retireSQL", "ended.deleteSignalsSQL", "ended.deleteWaitSQL", "tenants.forgetLimitStatsSQL", "tenants.forgetRatesSQL", "tenants.forgetLedgerSQL", "tenants.forgetEntriesSQL",
		"lanes.createQueuesSQL", "lanes.reviveLanesSQL", "lanes.createLanesSQL",
		"queues.retireQueueSQL", "queues.removeQueueSQL", "queues.markDeletedSQL", "queues.forgetRateSQL",
		"queues.putQueueSQL", "queues.checkKeysSQL", "budget.putSQL", "budget.checkLinesSQL", "budget.deleteSQL", "budget.forgetSQL", "queues.pauseQueueSQL", "queues.probeQueueSQL",
		"schedule.putScheduleSQL", "schedule.pauseScheduleSQL", "schedule.deleteRunsSQL", "schedule.deleteScheduleSQL", "schedule.addRunSQL", "schedule.noteTriggerSQL",
		"submit.takeBackSQL", "submit.supersedeSQL", "submit.saveKeySQL", "workflow.addSQL", "workflow.addJobsSQL", "dependency.addSQL", "dependency.flagLiveSQL", "dependency.flagDeadSQL",
		"tenants.pauseAllSQL", "tenants.stopSchedulesSQL",
		"webhook.putWebhookSQL", "webhook.putQueueSQL", "webhook.rotateSecretSQL", "webhook.deleteWebhookSQL", "webhook.removeSQL", "webhook.forgetWebhookSQL",
	},
	"an earlier statement of the transaction locks the jobs, schedules, events or redrives that it is of, and asks": {
		"amend.amendSQL", "claim.leaseSQL", "jobs.requeueSQL", "jobs.removeSQL", "jobs.deadLetterSQL", "jobs.cancelledSQL", "jobs.recordAttemptsSQL", "jobs.waitSQL", "jobs.waitCheckpointSQL", "jobs.storeSignalSQL", "jobs.signalledSQL", "jobs.wakeSQL", "jobs.appendOutputSQL", "jobs.chainedWaitSQL",
		"jobs.keepEdgesSQL", "jobs.resolveEdgesSQL", "jobs.resolveAllSQL", "jobs.unblockSQL", "jobs.deleteFollowUpsSQL",
		"caps.appendRatesSQL", "caps.appendLeavingSQL", "dependency.appendSQL", "gate.appendSQL", "ledger.failedSQL",
		"gate.limitSQL", "gate.readySQL", "gate.forgetSQL", "gate.useSQL", "gate.laterSQL",
		"gate.aheadSQL", "gate.lineSQL", "gate.leaveLineSQL", "gate.waitSQL", "gate.reviewSQL", "claim.giveBackSQL",
		"budget.settleSQL", "budget.closeSQL", "budget.appendSQL", "jobs.chainedAnswerSQL",
		"schedule.claimRunsSQL", "schedule.correctRunsSQL", "schedule.moveSchedulesSQL",
		"deadletter.progressSQL", "deadletter.discardMatchingSQL", "deadletter.writeSampleSQL",
		"webhook.deleteEventsSQL", "workflow.deliveredSQL", "alerts.dropSQL", "alerts.keepSQL", "alerts.appendSQL",
	},
	"a part of a statement that asks": {
		"jobs.completedHead", "jobs.promotedSQL", "budget.SettleEndedSQL", "caps.LeaveCountsSQL", "dependency.RemovedSQL", "events.AppendLiveSQL", "ledger.DiscardedSQL", "ledger.RedrivenSQL", "ledger.DeletedSQL",
	},
	"counts of caps: a move does not copy them, it counts the jobs": {
		"caps.appendUsageSQL", "caps.appendDeletingSQL", "caps.pruneLogSQL", "caps.pruneCreditsSQL", "caps.forgetLogSQL", "caps.forgetCreditsSQL",
		"caps.unsettleSQL", "caps.dropCountsSQL", "caps.resetCountersSQL",
	},
	"a day is closed for all tenants: a move refuses cells that have not closed the same days": {"ledger.countDaySQL", "ledger.forgetEntriesSQL"},
	"of a tenant that is being deleted, which RemoveData asks, or of the mover's own":          {"tenants.removals", "tenants.removeRows", "tenants.removeCounts", "tenants.withJobsSQL"},
}

// asking are the names of the clauses of package store.
var asking = []string{"MovingSQL", "ServedSQL", "ServedOwnerSQL", "ServedTenantsSQL", "TakesJobsSQL"} //nolint:gochecknoglobals // likewise

// text is what a declaration says in SQL, and the names that it uses.
type text struct {
	sql   strings.Builder
	names []string
}

// Every statement of core that writes rows of tenants asks whether the tenant is being moved, or is known not to need it.
func TestEveryWriteAsks(t *testing.T) {
	t.Parallel()
	names := slices.DeleteFunc(move.TableNames(), func(table string) bool { return table == "audit_log" }) // copied afterwards
	write := regexp.MustCompile(`\b(INSERT INTO|UPDATE|DELETE FROM) +(` + strings.Join(names, "|") + `)?(\s|\x00)`)
	known := map[string]string{}
	for reason, some := range asksNot {
		for _, name := range some {
			known[name] = reason
		}
	}
	seen := 0
	for dir, declared := range declarations(t) {
		for name, one := range declared {
			found := write.FindAllStringSubmatch(one.sql.String(), -1)
			if !slices.ContainsFunc(found, func(m []string) bool { return m[2] != "" || m[3] == "\x00" }) {
				continue
			}
			seen++
			full := filepath.Base(dir) + "." + name
			asks := one.asks(declared, map[string]bool{})
			if _, listed := known[full]; asks == listed {
				t.Errorf("%s in %s: asks %v, listed %v", full, dir, asks, listed)
			}
			delete(known, full)
		}
	}
	for name := range known {
		t.Errorf("%s is listed, and does not write", name)
	}
	if seen < 100 {
		t.Errorf("only %d statements were found", seen)
	}
}

// asks says whether a declaration has one of the clauses, itself or by a name of its package.
func (one *text) asks(declared map[string]*text, seen map[string]bool) bool {
	return slices.ContainsFunc(one.names, func(name string) bool {
		if slices.Contains(asking, name) {
			return true
		}
		other := declared[name]
		if other == nil || other == one || seen[name] {
			return false
		}
		seen[name] = true
		return other.asks(declared, seen)
	})
}

// declarations are the constants, variables and functions of core's packages, by folder and name.
func declarations(t *testing.T) map[string]map[string]*text {
	t.Helper()
	found := map[string]map[string]*text{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{"celltest", "enginetest", "move", "testdata"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if found[dir] == nil {
			found[dir] = map[string]*text{}
		}
		for _, declaration := range file.Decls {
			readDeclaration(found[dir], declaration)
		}
		return nil
	})
	if err != nil || len(found) < 20 {
		t.Fatalf("%d packages: %v", len(found), err)
	}
	return found
}

func readDeclaration(into map[string]*text, declaration ast.Decl) {
	read := func(name string, node ast.Node) {
		one := &text{}
		ast.Inspect(node, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if said, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					one.sql.WriteString(said + "\x00")
				}
			case *ast.Ident:
				one.names = append(one.names, n.Name)
			}
			return true
		})
		into[name] = one
	}
	switch declaration := declaration.(type) {
	case *ast.FuncDecl:
		if declaration.Body != nil {
			read(declaration.Name.Name, declaration.Body)
		}
	case *ast.GenDecl:
		for _, spec := range declaration.Specs {
			if values, ok := spec.(*ast.ValueSpec); ok {
				for i, value := range values.Values {
					read(values.Names[i].Name, value)
				}
			}
		}
	}
}
