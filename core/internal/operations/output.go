package operations

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// AppendOutput stores what the holder of a lease says. Chunks whose numbers were there are left out.
//
//	@x-problems  ["lease_lost"]
//	@x-example-line {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "output": {"lease_token": "LEASE_TOKEN", "chunks": [{"seq": 1, "stream": "out", "text": "page 1 of 3\n"}]}}
func (o *Operations) AppendOutput(ctx context.Context, owner tenant.ID, item hop.Item[hop.AppendOutputRequest]) (api.OutputAccepted, error) {
	sent := item.Request.Output
	if fields := sent.Validate(); len(fields) > 0 {
		return api.OutputAccepted{}, problem.Invalid(fields...)
	}
	lease, err := parseLease(owner, item.Request.ID, sent.LeaseToken)
	if err != nil {
		return api.OutputAccepted{}, err
	}
	made, err := o.Store.Jobs.AppendOutput(ctx, lease, sent.Chunks)
	if err != nil {
		return api.OutputAccepted{}, err
	}
	if made.Stored {
		o.Engine.Watches.WakeForVersion(lease.Job)
	}
	return api.OutputAccepted{NextSeq: made.Next}, nil
}

// ListSignals reads the signals that a job was sent, by name. A job that has ended has none.
//
//	@x-problems  []
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) ListSignals(ctx context.Context, owner tenant.ID, item hop.Item[hop.SignalsRequest]) (hop.SignalList, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return hop.SignalList{}, err
	}
	found, err := o.Store.JobReads.Signals(ctx, owner, item.Principal.User, id)
	return hop.SignalList{Items: found}, err
}

// ReadOutput reads what a job has said after a chunk.
//
//	@x-problems  ["not_found"]
//	@x-example-begin {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) ReadOutput(ctx context.Context, owner tenant.ID, item hop.Item[hop.ReadOutputRequest]) (api.OutputPage, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.OutputPage{}, err
	}
	return o.Store.JobReads.Output(ctx, owner, item.Principal.User, id, api.OutputPlace{Epoch: item.Request.Epoch, Seq: item.Request.Seq})
}
