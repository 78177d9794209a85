package httpapi

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// encode writes the results of a call. What is JSON already stays as it is: payloads but for
// white space, and the responses to submits, rendered or saved, byte for byte.
func encode(results any) ([]byte, error) {
	if answers, ok := results.(hop.Results[hop.SubmitResponse]); ok {
		return joinAnswers(answers.Results)
	}
	return marshal(results)
}

// marshal writes what encoding/json would, and faster; the gateway passes it on. Only U+2028 and U+2029 in strings are not
// escaped: with EscapeForJS they would be in payloads too.
func marshal(value any) ([]byte, error) { return json.Marshal(value, asEncodingJSON) }

// Joined once, not for each value.
var asEncodingJSON = json.JoinOptions(
	json.FormatNilSliceAsNull(true), json.FormatNilMapAsNull(true), json.Deterministic(true),
	jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// joinAnswers writes hop.Results around responses that are JSON already.
func joinAnswers(answers []hop.Result[hop.SubmitResponse]) ([]byte, error) {
	size := len(`{"results":[]}`)
	for i := range answers {
		size += len(`,{"status":200,"replayed":true,"value":}`)
		if answers[i].Value != nil {
			size += len(*answers[i].Value)
		}
	}
	to := append(make([]byte, 0, size), `{"results":[`...)
	for i := range answers {
		if i > 0 {
			to = append(to, ',')
		}
		answer := &answers[i]
		if answer.Problem != nil || answer.Value == nil {
			text, err := marshal(answer)
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
