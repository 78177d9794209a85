package bridge

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

const (
	// A receive waits for longPoll, and gives at most sqsBatch messages.
	longPoll = 20 * time.Second
	sqsBatch = 10
	// holdFor is how long a message that waits is invisible to others.
	holdFor = 10 * time.Minute
	// deleteAfter is how long a delete waits for others.
	deleteAfter = 20 * time.Millisecond
	deleteTries = 5
)

// sqsSource is a queue of SQS. Deletes are sent in batches.
type sqsSource struct {
	client  *sqs.Client
	queue   string
	deletes chan *deletion
	stop    context.CancelFunc
	done    sync.WaitGroup
}

type deletion struct {
	receipt string
	result  chan error
}

func openSQS(ctx context.Context, from *Source) (source, error) {
	u := *from.url
	region := cmp.Or(u.Query().Get("region"), regionOf(u.Hostname()))
	u.RawQuery, u.Scheme = "", map[string]string{"sqs": "https", "sqs+http": "http"}[u.Scheme]
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, err
	}
	if settings.Region == "" {
		return nil, fmt.Errorf("the region of %s is not known: add ?region=, or set AWS_REGION", u.Host)
	}
	base := u.Scheme + "://" + u.Host
	client := sqs.NewFromConfig(settings, func(o *sqs.Options) { o.BaseEndpoint = &base })
	s := &sqsSource{client: client, queue: u.String(), deletes: make(chan *deletion)}
	if _, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &s.queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	}); err != nil {
		return nil, err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.done.Go(func() { s.deleteAll(working) })
	return s, nil
}

// regionOf is the region in a host of AWS, sqs.REGION.amazonaws.com; else empty.
func regionOf(host string) string {
	parts := strings.Split(host, ".")
	if len(parts) >= 4 && parts[0] == "sqs" && parts[2] == "amazonaws" {
		return parts[1]
	}
	return ""
}

func (s *sqsSource) take(ctx context.Context, n int) ([]*message, error) {
	answer, err := s.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &s.queue, MaxNumberOfMessages: int32(min(n, sqsBatch)), WaitTimeSeconds: int32(longPoll / time.Second), //nolint:gosec // 1 to 10
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
	})
	if err != nil {
		return nil, err
	}
	taken := make([]*message, len(answer.Messages))
	for i := range answer.Messages {
		one := &answer.Messages[i]
		taken[i] = &message{
			id: value(one.MessageId), body: []byte(value(one.Body)), receipt: value(one.ReceiptHandle),
			group: one.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
		}
	}
	return taken, nil
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (s *sqsSource) accept(ctx context.Context, m *message) error {
	d := &deletion{receipt: m.receipt.(string), result: make(chan error, 1)} //nolint:forcetypeassert // its own
	select {
	case s.deletes <- d:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-d.result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deleteAll deletes in batches, as soon as one is full or deleteAfter is over.
func (s *sqsSource) deleteAll(ctx context.Context) {
	for {
		var batch []*deletion
		select {
		case <-ctx.Done():
			return
		case first := <-s.deletes:
			batch = append(batch, first)
		}
		over := time.NewTimer(deleteAfter)
		for waiting := true; waiting && len(batch) < sqsBatch; {
			select {
			case next := <-s.deletes:
				batch = append(batch, next)
			case <-over.C:
				waiting = false
			}
		}
		over.Stop()
		s.done.Go(func() { s.delete(ctx, batch) })
	}
}

func (s *sqsSource) delete(ctx context.Context, batch []*deletion) {
	for try := 0; len(batch) > 0; try++ {
		entries := make([]types.DeleteMessageBatchRequestEntry, len(batch))
		for i, d := range batch {
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: new(strconv.Itoa(i)), ReceiptHandle: &d.receipt}
		}
		answer, err := s.client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &s.queue, Entries: entries})
		failed := map[string]error{}
		if err == nil {
			for _, f := range answer.Failed {
				failed[value(f.Id)] = fmt.Errorf("the delete was refused: %s", value(f.Code))
			}
		}
		var again []*deletion
		for i, d := range batch {
			one := err
			if one == nil {
				one = failed[strconv.Itoa(i)]
			}
			if one != nil && err == nil && try < deleteTries {
				again = append(again, d)
				continue
			}
			d.result <- one
		}
		batch = again
	}
}

// reject leaves the message: when it has been received often enough, the queue's redrive policy takes it.
func (s *sqsSource) reject(context.Context, *message) error { return nil }

func (s *sqsSource) giveBack(ctx context.Context, m *message) error { return s.visible(ctx, m, 0) }

func (s *sqsSource) hold(ctx context.Context, m *message) error { return s.visible(ctx, m, holdFor) }

func (s *sqsSource) visible(ctx context.Context, m *message, after time.Duration) error {
	receipt := m.receipt.(string) //nolint:forcetypeassert // its own
	_, err := s.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &s.queue, ReceiptHandle: &receipt, VisibilityTimeout: int32(after / time.Second), //nolint:gosec // 0 or 600
	})
	return err
}

func (s *sqsSource) close(context.Context) {
	s.stop()
	s.done.Wait()
}
