//! Several writes as one: all of them happen, or none.

use a2a_protocol::TaskId;

use super::{Batch, Care, Result};
use crate::{Write, Written};

impl Batch<'_> {
    pub(super) fn together(&mut self, writes: Vec<Write>) -> Result<Written> {
        let mut touched = Vec::new();
        writes.iter().for_each(|write| tasks_of(write, &mut touched));
        let written = self.wholly(|batch| {
            let mut all = Vec::with_capacity(writes.len());
            for write in writes {
                let written = batch.apply(write)?;
                if !written.fits() {
                    return Ok(written);
                }
                all.push(written);
            }
            Ok(Written::Together(all))
        })?;
        if !written.fits() {
            // What was noted of them on the way was taken back.
            touched.into_iter().for_each(|id| self.known.forget(id));
        }
        Ok(written)
    }

    /// Takes back what `work` did to the rows when its answer is that it does not fit. After an
    /// error there is nothing to do: the whole transaction is taken back.
    pub(super) fn wholly(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Written>,
    ) -> Result<Written> {
        if self.care == Care::Trusting {
            let written = work(self)?;
            self.spoiled |= !written.fits();
            return Ok(written);
        }
        self.sql.prepare_cached("SAVEPOINT whole")?.execute([])?;
        let written = work(self)?;
        if !written.fits() {
            self.sql.prepare_cached("ROLLBACK TO whole")?.execute([])?;
        }
        self.sql.prepare_cached("RELEASE whole")?.execute([])?;
        Ok(written)
    }
}

/// The tasks of which the writer may note something when it does this.
fn tasks_of(write: &Write, tasks: &mut Vec<TaskId>) {
    match write {
        Write::Create { stored, .. } | Write::Update { stored, .. } => tasks.push(stored.id()),
        Write::Answer { id, .. } | Write::Delete(id) => tasks.push(*id),
        Write::PutPush { task, .. } | Write::DeletePush { task, .. } => tasks.push(*task),
        Write::Together(writes) => writes.iter().for_each(|write| tasks_of(write, tasks)),
        Write::Pushed { .. }
        | Write::PushLater { .. }
        | Write::AnswerAtOnce { .. }
        | Write::Objective(_)
        | Write::Expire { .. } => {}
    }
}
