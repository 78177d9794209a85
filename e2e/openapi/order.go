package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// orderExtension is an operation's place on the page.
const orderExtension = "x-order"

// operationOrder is the order in which people need the public operations, within their groups.
func operationOrder() []string {
	return []string{
		"submitJob", "getJob", "listJobs", "patchJob", "cancelJob", "signalJob", "createSignalLink", "getSignalLink", "useSignalLink", "rerunJob", "explainJob", "streamJobEvents", "createEventsToken", "readOutput", "submitBatch", "listAttempts", "deleteJob", "exportUser", "createBulk", "getBulk", "listBulk", "cancelBulk",
		"claimJobs", "sendHeartbeat", "completeJob", "failJob", "snoozeJob", "waitJob", "appendOutput", "releaseJob", "reportOutcomes", "registerWorker", "listWorkers", "removeWorker",
		"listQueues", "getQueue", "listQueueKeys", "scaleQueue", "putQueue", "pauseQueue", "resumeQueue", "probeQueue", "deleteQueue", "putBudget", "getBudget", "listBudgets", "readBudgetUsage", "deleteBudget", "readStats", "readLimitStats", "readUsage",
		"listDeadLetters", "groupDeadLetters", "redriveJob", "redriveDeadLetters", "discardDeadLetters", "listRedrives", "getRedrive", "cancelRedrive",
		"submitWorkflow", "getWorkflow", "listWorkflows", "addToWorkflow", "cancelWorkflow", "redriveWorkflow", "listParents",
		"putSchedule", "getSchedule", "listSchedules", "triggerSchedule", "pauseSchedule", "resumeSchedule", "listScheduleRuns", "deleteSchedule",
		"putType", "getType", "listTypes", "listTypeVersions", "deleteType", "getOpenAPI",
		"putWebhook", "getWebhook", "listWebhooks", "testWebhook", "probeWebhook", "rotateWebhookSecret", "deleteWebhook",
		"getWhoami", "getLimits", "endSessions", "listAudit",
		"createOwnKey", "listOwnKeys", "revokeOwnKey",
		"checkReadiness", "checkLiveness",
		"createTenant", "listTenants", "readTenantStats", "getTenant", "patchTenant", "deleteTenant", "createKey", "listKeys", "revokeKey", "createPlatformKey",
		"putPlan", "getPlan", "listPlans", "listAllAudit", "getInstallation",
	}
}

// place gives a public operation its place.
func (c *completer) place(op *openapi3.Operation) error {
	if c.service.internal {
		return nil
	}
	at := slices.Index(operationOrder(), op.OperationID)
	if at < 0 {
		return fmt.Errorf("it has no place on the page: add %s to operationOrder", op.OperationID)
	}
	op.Extensions[orderExtension] = at + 1
	return nil
}

// ordered writes JSON, the fields of each object in the order of problem.FirstFields.
func ordered(value any) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return inOrder(text, true)
}

// orderShown orders the fields of what people see, examples and properties; all else is by name.
func orderShown(text []byte) ([]byte, error) { return inOrder(text, false) }

func inOrder(text []byte, shown bool) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := write(&out, value, shown, ""); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// write writes a value; key is the one that it stands under.
func write(out *bytes.Buffer, value any, shown bool, key string) error {
	switch value := value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(value))
		shown = shown || key == "example" || key == "value"
		if shown || key == "properties" {
			slices.SortStableFunc(keys, func(a, b string) int { return rank(a) - rank(b) })
		}
		out.WriteByte('{')
		for i, name := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			quoted, err := json.Marshal(name)
			if err != nil {
				return err
			}
			out.Write(quoted)
			out.WriteByte(':')
			if err := write(out, value[name], shown, name); err != nil {
				return err
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, one := range value {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := write(out, one, shown, ""); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		out.Write(text)
	}
	return nil
}

func rank(field string) int {
	if at := slices.Index(problem.FirstFields(), field); at >= 0 {
		return at
	}
	return len(problem.FirstFields())
}
