package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Option says something about the jobs of one call.
type Option func(*choices)

type choices struct {
	job client.JobOptions
	key *string
}

// With gives the job options, as client.Submit takes them. Delay and ExpiresAfter count from the insert. MaxWait is refused: nobody
// would hear of the refusal.
func With(options client.JobOptions) Option { return func(c *choices) { c.job = options } }

// InOrder gives the row an ordering key, of 1 to 255 bytes: rows with the same one are sent one after the other,
// in the order of their inserts. A row that the server refuses for good holds those after it.
func InOrder(key string) Option { return func(c *choices) { c.key = &key } }

func chosen(options []Option) choices {
	var c choices
	for _, option := range options {
		option(&c)
	}
	return c
}

const enqueueSQL = `SELECT forgequeue_enqueue_job($1::jsonb, $2::text)`

// Submit stores a job in the outbox, as part of the transaction, and returns the id of its row. An error of arguments
// that the server would refuse leaves the transaction usable, with the exceptions that only PostgreSQL sees (nesting of
// more than 29 levels); any other error aborts it.
//
//	id, err := outbox.Submit(ctx, tx, Email{To: "ada@example.com"}, outbox.With(client.JobOptions{Queue: "mail"}))
func Submit(ctx context.Context, tx pgx.Tx, args client.JobArgs, options ...Option) (id int64, err error) {
	c := chosen(options)
	request, err := client.Request(args, c.job)
	if err != nil {
		return 0, err
	}
	return submit(ctx, tx, request, c.key)
}

// SubmitRequest is Submit for a job as the API takes it. With does not apply.
func SubmitRequest(ctx context.Context, tx pgx.Tx, job api.SubmitRequest, options ...Option) (id int64, err error) {
	return submit(ctx, tx, job, chosen(options).key)
}

func submit(ctx context.Context, tx pgx.Tx, request api.SubmitRequest, key *string) (id int64, err error) {
	text, err := written(request, key)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRow(ctx, enqueueSQL, text, key).Scan(&id); err != nil {
		return 0, fmt.Errorf("outbox: submit: %w", err)
	}
	return id, nil
}

// SubmitSQL is Submit in a transaction of database/sql, with any driver for PostgreSQL.
func SubmitSQL(ctx context.Context, tx *sql.Tx, args client.JobArgs, options ...Option) (id int64, err error) {
	c := chosen(options)
	request, err := client.Request(args, c.job)
	if err != nil {
		return 0, err
	}
	return submitSQL(ctx, tx, request, c.key)
}

// SubmitRequestSQL is SubmitRequest in a transaction of database/sql.
func SubmitRequestSQL(ctx context.Context, tx *sql.Tx, job api.SubmitRequest, options ...Option) (id int64, err error) {
	return submitSQL(ctx, tx, job, chosen(options).key)
}

func submitSQL(ctx context.Context, tx *sql.Tx, request api.SubmitRequest, key *string) (id int64, err error) {
	text, err := written(request, key)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, enqueueSQL, text, key).Scan(&id); err != nil {
		return 0, fmt.Errorf("outbox: submit: %w", err)
	}
	return id, nil
}

// In the order of the jobs: ids are drawn in that order.
const enqueueManySQL = `
SELECT forgequeue_enqueue_job(job::jsonb, $2::text)
FROM unnest($1::text[]) WITH ORDINALITY AS listed(job, place)
ORDER BY place`

// SubmitMany stores any number of jobs with one statement, and returns the ids of their rows, in the order of args. Arguments of several types go
// into a []client.JobArgs. The options are for each of them.
func SubmitMany[Args client.JobArgs](ctx context.Context, tx pgx.Tx, args []Args, options ...Option) (ids []int64, err error) {
	c := chosen(options)
	texts := make([]string, len(args))
	for i := range args {
		request, err := client.Request(args[i], c.job)
		if err == nil {
			texts[i], err = written(request, c.key)
		}
		if err != nil {
			return nil, fmt.Errorf("no. %d of %d: %w", i, len(args), err)
		}
	}
	rows, err := tx.Query(ctx, enqueueManySQL, texts, c.key)
	if err == nil {
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: submit: %w", err)
	}
	return ids, nil
}

// written is a job as JSON. The error is what can be said without PostgreSQL, where an error would abort the transaction.
func written(request api.SubmitRequest, key *string) (string, error) {
	var faults []string
	for _, fault := range request.Validate("", time.Now()) {
		faults = append(faults, fault.Field+": "+fault.Message)
	}
	if key != nil && (*key == "" || len(*key) > 255) {
		faults = append(faults, "ordering_key: must be 1 to 255 bytes")
	}
	if request.MaxWaitMS != nil {
		faults = append(faults, "max_wait_ms: cannot be used in an outbox, because nobody hears of the refusal")
	}
	if holdsNUL(request.Payload) {
		faults = append(faults, `payload: must not contain NUL characters (\u0000), which jsonb cannot store`)
	}
	if len(faults) > 0 {
		return "", fmt.Errorf("outbox: %w", errors.New(strings.Join(faults, "; ")))
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // an escaped payload could exceed its limit
	if err := encoder.Encode(request); err != nil {
		return "", fmt.Errorf("outbox: the job cannot be written as JSON: %w", err)
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

// holdsNUL says whether a string in JSON has the escape of NUL.
func holdsNUL(text []byte) bool {
	for i := 0; i < len(text)-1; i++ {
		if text[i] != '\\' {
			continue
		}
		if bytes.HasPrefix(text[i+1:], []byte("u0000")) {
			return true
		}
		i++ // what is escaped begins no escape
	}
	return false
}
