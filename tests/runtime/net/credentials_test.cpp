// Owns the tests of the run's certificate authority.
#include "runtime/net/credentials.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "runtime/net/certificate_authority.hpp"

BOOST_AUTO_TEST_SUITE(credentials_of_a_run)

using namespace prime;
using namespace prime::net;

namespace {

std::vector<unsigned char> encoded(X509* certificate) {
  unsigned char* bytes = nullptr;
  const int size = i2d_X509(certificate, &bytes);
  BOOST_REQUIRE(size > 0);
  std::vector<unsigned char> copy(bytes, bytes + size);
  OPENSSL_free(bytes);
  return copy;
}

bool verifies(X509* certificate, X509* authority) {
  const std::unique_ptr<X509_STORE, Releaser<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, Releaser<X509_STORE_CTX_free>> context(X509_STORE_CTX_new());
  X509_STORE_add_cert(store.get(), authority);
  X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr);
  return X509_verify_cert(context.get()) == 1;
}

const Identity SOMEBODY{Role::Peer, PeerId{0xabcdef}};

}  // namespace

BOOST_AUTO_TEST_CASE(the_authority_is_the_same_wherever_it_is_derived) {
  const RunKey key = RunKey::generate();
  const auto here = CertificateAuthority::derive(key, "run-1");
  const auto there = CertificateAuthority::derive(key, "run-1");
  BOOST_REQUIRE((here && there));
  BOOST_TEST(encoded(here->certificate()) == encoded(there->certificate()), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_certificate_verifies_against_an_authority_derived_elsewhere) {
  const RunKey key = RunKey::generate();
  const auto here = CertificateAuthority::derive(key, "run-1");
  const auto there = CertificateAuthority::derive(key, "run-1");
  const auto leaf = here->issue(SOMEBODY);
  BOOST_REQUIRE(leaf);
  BOOST_TEST(verifies(leaf->certificate.get(), there->certificate()));
}

BOOST_AUTO_TEST_CASE(certificates_of_another_key_or_another_run_do_not_verify) {
  const RunKey key = RunKey::generate();
  const auto ours = CertificateAuthority::derive(key, "run-1");
  const auto other_run = CertificateAuthority::derive(key, "run-2")->issue(SOMEBODY);
  const auto other_key = CertificateAuthority::derive(RunKey::generate(), "run-1")->issue(SOMEBODY);
  BOOST_TEST(!verifies(other_run->certificate.get(), ours->certificate()));
  // Not by its name alone: the key is another one too.
  const auto other_authority = CertificateAuthority::derive(key, "run-2");
  BOOST_TEST(EVP_PKEY_eq(X509_get0_pubkey(ours->certificate()), X509_get0_pubkey(other_authority->certificate())) != 1);
  BOOST_TEST(!verifies(other_key->certificate.get(), ours->certificate()));
}

BOOST_AUTO_TEST_CASE(a_holder_of_a_leaf_cannot_issue_further_ones) {
  const auto authority = CertificateAuthority::derive(RunKey::generate(), "run");
  const auto leaf = authority->issue(SOMEBODY);
  const auto grandchild = authority->issue(SOMEBODY);
  X509_set_issuer_name(grandchild->certificate.get(), X509_get_subject_name(leaf->certificate.get()));
  X509_sign(grandchild->certificate.get(), leaf->key.get(), nullptr);
  BOOST_TEST(!verifies(grandchild->certificate.get(), authority->certificate()));
}

BOOST_AUTO_TEST_CASE(a_certificate_names_its_holder) {
  const auto authority = CertificateAuthority::derive(RunKey::generate(), "run");
  for (const Identity who : {Identity{Role::Peer, PeerId{7}}, Identity{Role::Coordinator, PeerId{~0ULL}}}) {
    const auto leaf = authority->issue(who);
    BOOST_REQUIRE(leaf);
    BOOST_TEST((identity_in(leaf->certificate.get()) == who));
  }
  BOOST_TEST(!identity_in(authority->certificate()).has_value());
}

BOOST_AUTO_TEST_CASE(every_certificate_is_fresh) {
  const auto authority = CertificateAuthority::derive(RunKey::generate(), "run");
  BOOST_TEST(encoded(authority->issue(SOMEBODY)->certificate.get()) != encoded(authority->issue(SOMEBODY)->certificate.get()));
}

BOOST_AUTO_TEST_CASE(a_run_id_that_no_invite_could_carry_is_refused) {
  for (const auto* run : {"No Run", "", "-flag"}) {
    const auto made = Credentials::make(RunKey::generate(), run, SOMEBODY);
    BOOST_REQUIRE_MESSAGE(!made, run);
    BOOST_TEST((made.error().name == ErrorName::Usage));
  }
}

BOOST_AUTO_TEST_SUITE_END()
