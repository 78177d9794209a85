package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Each job of a submit is validated by gateway and core.
func BenchmarkValidateSubmit(b *testing.B) {
	for name, body := range map[string]string{
		"least": `{"type":"mail.send","payload":{"to":"ada"}}`,
		"most": `{"type":"mail.send","queue":"mail","payload":{"to":"ada"},"priority":7,"delay_ms":1000,"expires_after_ms":60000,"max_wait_ms":5000,
			"max_attempts":5,"timeout_ms":30000,"retry":{"base_ms":1000,"cap_ms":60000,"jitter":0.1,"curve":"linear"},"tags":["gpu","eu"],
			"user":"ada","metadata":{"order":"1042","region":"eu"},"dedupe_key":"welcome-ada","after":["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}`,
	} {
		b.Run(name, func(b *testing.B) {
			var request api.SubmitRequest
			if err := json.Unmarshal([]byte(body), &request); err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				if wrong := request.Validate("", now); len(wrong) > 0 {
					b.Fatal(wrong)
				}
			}
		})
	}
}
