package client_test

import (
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestAllOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				refuse(w, problem.CoreUnavailable) // it is read again
				return
			}
			after, _ := api.ParseOutputPlace(r.URL.Query().Get("after"))
			last := after.Seq
			page := api.OutputPage{More: last < 4}
			for i := range int64(2) {
				page.Items = append(page.Items, api.Output{ID: "1." + strconv.FormatInt(last+i+1, 10)})
			}
			answer(w, http.StatusOK, page)
		})
		text := ""
		for piece, err := range s.client.AllOutput(t.Context(), "j1", "") {
			if err != nil {
				t.Fatal(err)
			}
			text += piece.ID + " "
		}
		if text != "1.1 1.2 1.3 1.4 1.5 1.6 " {
			t.Errorf("%q", text)
		}
		if all := s.all(); len(all) != 4 || all[0].Path != "/v1/jobs/j1/output" || all[0].Query != "" || all[3].Query != "after=1.4" {
			t.Errorf("%+v", all)
		}
	})
}

func TestAppendOutput(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			switch n {
			case 0:
				breakOff(w)
			case 1:
				answer(w, http.StatusAccepted, api.OutputAccepted{NextSeq: 2})
			case 2:
				refuse(w, problem.CoreUnavailable)
			default:
				refuse(w, problem.LeaseLost)
			}
		})
		said := api.OutputRequest{LeaseToken: "lease", Chunks: []api.OutputChunk{{Seq: 1, Stream: api.OutputOut, Text: "<hello>"}}}
		if got, err := s.client.AppendOutput(t.Context(), "j1", said); err != nil || got.NextSeq != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if all := s.all(); len(all) != 2 || all[1].Path != "/v1/jobs/j1/output" || all[1].Body != all[0].Body ||
			all[1].Body != `{"lease_token":"lease","chunks":[{"seq":1,"stream":"out","text":"<hello>"}]}` {
			t.Errorf("%+v", all)
		}
		if _, err := s.client.AppendOutput(t.Context(), "j1", said, client.WithOneTry()); codeOf(err) != problem.CoreUnavailable {
			t.Error(err)
		}
		if _, err := s.client.AppendOutput(t.Context(), "j1", said); codeOf(err) != problem.LeaseLost {
			t.Error(err)
		}
	})
}
