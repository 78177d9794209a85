package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listQueues
//
//	@Summary     List queues
//	@Description A page of the tenant's queues, by name.
//	@ID          queueLists
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Queue]] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/queue-lists [post]

// getQueue
//
//	@Summary     Read a queue
//	@Description Settings, depths, who serves it.
//	@ID          queueGets
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopQueueRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Queue] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-queue {"name": "default"}
//	@Router      /internal/v1/queue-gets [post]

// putQueue
//
//	@Summary     Set a queue
//	@Description Makes it, or replaces all of its settings. The secret of one in push mode is in this answer where the call made or replaced it, and in no other.
//	@ID          queuePuts
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopQueuePutRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Queue] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found", "too_many_lanes"]
//	@x-example-settings {"name": "default", "max_attempts": 5, "max_running": 20}
//	@x-example-push {"name": "default", "mode": "push", "push": {"url": "https://example.com/jobs"}, "rate_per_second": 50, "retry": {"curve": "constant"}}
//	@Router      /internal/v1/queue-puts [post]

// pauseQueue
//
//	@Summary     Pause or resume a queue
//	@Description A repeat changes nothing.
//	@ID          queuePauses
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopQueuePauseRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Queue] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found", "too_many_lanes"]
//	@x-example-pause {"name": "default", "paused": true}
//	@x-example-resume {"name": "default", "paused": false}
//	@Router      /internal/v1/queue-pauses [post]
