package request_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Metadata without members takes the place of what there was; absent metadata leaves it.
func TestEmptyMetadataIsNotAbsent(t *testing.T) {
	t.Parallel()
	for body, given := range map[string]bool{`{}`: false, `{"metadata":null}`: false, `{"metadata":{}}`: true, `{"metadata":{"a":null}}`: true} {
		var patch api.JobPatch
		if err := request.DecodeJSON([]byte(body), &patch); err != nil || (patch.Metadata != nil) != given || len(patch.Metadata) != 0 {
			t.Errorf("%s: %#v, %v", body, patch.Metadata, err)
		}
	}
}
