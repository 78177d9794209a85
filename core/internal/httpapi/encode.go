package httpapi

import (
	"strconv"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// encode writes the results of a call. What is JSON already stays as it is: payloads but for
// white space, and the responses to submits, rendered or saved, byte for byte.
func encode(results any) ([]byte, error) {
	if submitted, ok := results.(hop.Results[hop.SubmitResponse]); ok {
		return joinAnswers(submitted.Results)
	}
	return answers.JSON(results)
}

// joinAnswers writes hop.Results around responses that are JSON already.
func joinAnswers(results []hop.Result[hop.SubmitResponse]) ([]byte, error) {
	size := len(`{"results":[]}`)
	for i := range results {
		size += len(`,{"status":200,"replayed":true,"value":}`)
		if results[i].Value != nil {
			size += len(*results[i].Value)
		}
	}
	to := append(make([]byte, 0, size), `{"results":[`...)
	for i := range results {
		if i > 0 {
			to = append(to, ',')
		}
		answer := &results[i]
		if answer.Problem != nil || answer.Value == nil {
			text, err := answers.JSON(answer)
			if err != nil {
				return nil, err
			}
			to = append(to, text...)
			continue
		}
		to = strconv.AppendInt(append(to, `{"status":`...), int64(answer.Status), 10)
		if answer.Replayed {
			to = append(to, `,"replayed":true`...)
		}
		to = append(append(append(to, `,"value":`...), *answer.Value...), '}')
	}
	return append(to, `]}`...), nil
}
