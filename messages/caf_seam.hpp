// Owns the seam to CAF 0.17: type ids of what crosses nodes, the typed actor interfaces, and the few calls that later CAFs rename.
// The only header of this floor that includes CAF; a later CAF is a change here and in the transport.
#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "messages/membership.hpp"
#include "messages/outer_step.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(prime, 200)

CAF_ADD_TYPE_ID(prime, (prime::Hello))
CAF_ADD_TYPE_ID(prime, (prime::Welcome))
CAF_ADD_TYPE_ID(prime, (prime::Seated))
CAF_ADD_TYPE_ID(prime, (prime::FetchState))
CAF_ADD_TYPE_ID(prime, (prime::Fetched))
CAF_ADD_TYPE_ID(prime, (prime::FetchFailed))
CAF_ADD_TYPE_ID(prime, (prime::Heartbeat))
CAF_ADD_TYPE_ID(prime, (prime::HeartbeatSeen))
CAF_ADD_TYPE_ID(prime, (prime::Deathrattle))
CAF_ADD_TYPE_ID(prime, (prime::Dismissed))
CAF_ADD_TYPE_ID(prime, (prime::BeginStep))
CAF_ADD_TYPE_ID(prime, (prime::Ready))
CAF_ADD_TYPE_ID(prime, (prime::StartReduce))
CAF_ADD_TYPE_ID(prime, (prime::Vote))
CAF_ADD_TYPE_ID(prime, (prime::ReduceFailed))
CAF_ADD_TYPE_ID(prime, (prime::InDoubt))
CAF_ADD_TYPE_ID(prime, (prime::Commit))
CAF_ADD_TYPE_ID(prime, (prime::Abort))
CAF_ADD_TYPE_ID(prime, (prime::RunDone))
CAF_ADD_TYPE_ID(prime, (prime::StateSaved))
CAF_ADD_TYPE_ID(prime, (prime::FinalReport))
CAF_ADD_TYPE_ID(prime, (prime::MeasureLink))
CAF_ADD_TYPE_ID(prime, (prime::LinkMeasured))
CAF_ADD_TYPE_ID(prime, (prime::LaneRelayed))
CAF_ADD_TYPE_ID(prime, (prime::TrainerRestarted))
CAF_ADD_TYPE_ID(prime, (prime::Coordinators))
CAF_ADD_TYPE_ID(prime, (prime::ReplicaLacks))
CAF_ADD_TYPE_ID(prime, (prime::PublishNow))
CAF_ADD_TYPE_ID(prime, (prime::LeaseUsed))

CAF_END_TYPE_ID_BLOCK(prime)

namespace prime {

/// What peers may say to the coordinator. The sender is the peer's own actor; Hello introduces it.
using CoordinatorActor =
    caf::typed_actor<caf::reacts_to<Hello>, caf::reacts_to<Seated>, caf::reacts_to<Fetched>, caf::reacts_to<FetchFailed>,
                     caf::reacts_to<Ready>, caf::reacts_to<Vote>, caf::reacts_to<ReduceFailed>, caf::reacts_to<InDoubt>,
                     caf::reacts_to<Heartbeat>, caf::reacts_to<Deathrattle>, caf::reacts_to<StateSaved>, caf::reacts_to<FinalReport>,
                     caf::reacts_to<LinkMeasured>, caf::reacts_to<LaneRelayed>, caf::reacts_to<TrainerRestarted>,
                     caf::reacts_to<LeaseUsed>>;

/// What the coordinator may say to a peer.
using PeerActor = caf::typed_actor<caf::reacts_to<Welcome>, caf::reacts_to<Dismissed>, caf::reacts_to<FetchState>,
                                   caf::reacts_to<BeginStep>, caf::reacts_to<StartReduce>, caf::reacts_to<Abort>, caf::reacts_to<Commit>,
                                   caf::reacts_to<RunDone>, caf::reacts_to<HeartbeatSeen>, caf::reacts_to<MeasureLink>,
                                   caf::reacts_to<Coordinators>, caf::reacts_to<ReplicaLacks>, caf::reacts_to<PublishNow>>;

/// Every process of a run registers all messages; a forgotten one arrives empty and nobody is told (spec/caf.md §2).
inline void add_messages(caf::actor_system_config& config) { config.add_message_types<caf::id_block::prime>(); }

}  // namespace prime
