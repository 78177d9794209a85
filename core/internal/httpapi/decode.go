package httpapi

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// decodeUnit is how many bytes of a body count as one, and decodeTime what they take until that is known.
const (
	decodeUnit = 4 << 10
	decodeTime = 40 * time.Microsecond
)

// decodeItems decodes the envelope of a call.
func decodeItems[Req any](ctx context.Context, body []byte) ([]hop.Item[Req], error) {
	var envelope hop.Envelope[Req]
	var err error
	by, units := senderOf(ctx), max(len(body)/decodeUnit, 1)
	by.processors.Run(ctx, seats.Work{Owner: by.owner, Operation: "decode", On: by.path, Size: units, Guess: time.Duration(units) * decodeTime}, func() {
		// The gateway has refused doubtful JSON of its callers, such as members of the same name.
		err = json.Unmarshal(body, &envelope, jsontext.AllowDuplicateNames(true))
	})
	if err != nil {
		return nil, problem.New(problem.InvalidJSON, "The envelope cannot be read: "+err.Error())
	}
	if len(envelope.Items) == 0 || len(envelope.Items) > hop.MaxItems {
		return nil, problem.Invalid(problem.FieldError{Field: "items", Message: "must have 1 to 1000 entries"})
	}
	return envelope.Items, nil
}
