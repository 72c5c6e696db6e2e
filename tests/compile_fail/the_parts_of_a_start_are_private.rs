//! What starts and verifies is neither re-exported nor reached by its module.

use scopectl::Client; //~ E0432
use scopectl::Link; //~ E0432
use scopectl::StartHandle; //~ E0432
use scopectl::Started; //~ E0432
use scopectl::bus::Bus; //~ E0603
use scopectl::client::Client; //~ E0603
use scopectl::client::StartHandle; //~ E0603
use scopectl::client::Started; //~ E0603
use scopectl::client::link::Link; //~ E0603
use scopectl::spec::StartPlan; //~ E0603

fn main() {}
